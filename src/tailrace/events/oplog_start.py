"""The first entry of an oplog: nothing was ever written before it."""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.oplog_entry import OplogEntry, parse_entry

FIRST_MESSAGE: Final = "initiating set"
"""The message of the no-op that a replica set's oplog begins with."""
_FIRST_FIELD: Final = rawbson.field(rawbson.document(rawbson.string(b"msg", FIRST_MESSAGE.encode())), b"msg")


def is_first_entry(entry: OplogEntry) -> bool:
    """Return whether this entry begins the oplog of its replica set."""
    return entry.head.op == "n" and rawbson.field(entry.o, b"msg") == _FIRST_FIELD


def goes_back_to(oldest: bytes, start: int) -> bool:
    """Return whether an oplog with this oldest entry has everything from a cluster time on."""
    entry = parse_entry(oldest)
    return entry.ts <= start or is_first_entry(entry)
