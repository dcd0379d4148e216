"""Deployments whose own change stream is read, because their oplog may not be."""
