"""Oplog entries recovered from the events of a change stream, for sources whose oplog cannot be read."""
