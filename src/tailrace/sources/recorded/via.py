"""How the changes of a deployment are read."""

from enum import Enum


class Via(Enum):
    OPLOG = "oplog"
    STREAM = "stream"
    """Its own change stream, where the oplog may not be read."""
