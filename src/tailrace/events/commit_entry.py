"""The oplog entry that commits a prepared transaction.

Its `o` is ``{commitTransaction: 1, commitTimestamp: <time>}``. Of a transaction over several shards each
shard logs one, at its own `ts`, all with the same `commitTimestamp`.
"""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.cluster_time import ClusterTime
from tailrace.events.oplog_entry import OplogEntry

COMMIT: Final = "commitTransaction"
"""The command."""
COMMIT_TIMESTAMP: Final = "commitTimestamp"
COMMIT_NAMESPACE: Final = "admin.$cmd"
_COMMIT_BYTES: Final = COMMIT.encode()
_COMMIT_TIMESTAMP_BYTES: Final = COMMIT_TIMESTAMP.encode()
_read_time = rawbson.UINT64_LE.unpack_from


def may_be_commit(raw: bytes) -> bool:
    """Return whether the bytes of an entry contain the command's name; documents may contain it, too."""
    return _COMMIT_BYTES in raw


def is_commit(entry: OplogEntry) -> bool:
    return entry.head.op == "c" and entry.command == COMMIT


def commit_timestamp(o: bytes) -> ClusterTime | None:
    """Return the `commitTimestamp` in the `o` of an entry; None if there is none."""
    found = rawbson.find(o, _COMMIT_TIMESTAMP_BYTES)
    if found is None or found[0] != rawbson.TIMESTAMP:
        return None
    return ClusterTime(_read_time(o, found[2])[0])
