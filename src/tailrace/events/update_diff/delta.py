"""The `o` of an update entry: a whole document, or ``{$v: 2, diff: {...}}``."""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError

DELTA_LEAD: Final = b"\x10$v\0\x02\0\0\0\x03diff\0"
"""What comes between the size of a delta and its diff"""
DIFF_START: Final = 4 + len(DELTA_LEAD)
"""Where the diff begins in a delta that has these two fields and nothing else"""
_read_int32 = rawbson.INT32_LE.unpack_from


def delta_of(diff: bytes) -> bytes:
    """The `o` that logs a diff."""
    return rawbson.document(DELTA_LEAD, diff)


def is_delta(o: bytes) -> bool:
    """Whether an update's `o` is a diff; it is a whole document if it has an `_id`."""
    if _is_plain(o):
        return True
    if rawbson.find(o, b"_id") is not None:
        return False
    if rawbson.field(o, b"$v") != (rawbson.INT32, b"\x02\0\0\0"):
        raise _neither()
    return True


def diff_of(o: bytes) -> bytes:
    """The diff in the `o` of a delta."""
    if _is_plain(o):
        return o[DIFF_START:-1]
    diff = rawbson.subdocument(o, b"diff")
    if diff is None:
        raise _neither()
    return diff


def _is_plain(o: bytes) -> bool:
    """Whether these are the two fields and nothing else, as every current server writes them."""
    return o[4:DIFF_START] == DELTA_LEAD and bool(_read_int32(o, DIFF_START)[0] == len(o) - DIFF_START - 1)


def _neither() -> CommandError:
    return CommandError(6741200, "an update entry has neither a document with _id nor a $v: 2 diff")
