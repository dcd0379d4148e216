"""Ranges of record keys that decide conditions: times of the oplog, `_id`s of clustered collections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import Binary, Timestamp
from bson.binary import UUID_SUBTYPE

from tailrace.bson.keystring import layout
from tailrace.events.cluster_time import from_timestamp
from tailrace.mongod.server.reads.access.intervals import Interval, KeySpace, field_intervals
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.tables import pack_time
from tailrace.query.match.conditions import Condition

_TIME: Final = 9
"""Size of a timestamp's KeyString: its type, and the time as in the oplog's record keys."""
_UUID_SIZE: Final = 16
_IMAGE_SIZE: Final = _UUID_SIZE + 16
_LAST_IMAGE: Final = (1 << 8 * _IMAGE_SIZE) - 1
_LAST_INDEX: Final = (1 << 64) - 1
_BEHIND_ALL: Final = b"\xff" * 16
_JUST_BELOW_END: Final = bytes([layout.END - 1])
_END: Final = bytes([layout.END])


@dataclass(frozen=True, slots=True)
class RecordBounds:
    """The range in both directions; None is the end of the collection."""

    path: str
    """The field that determines the record key."""
    after: bytes | None = None
    highest: bytes | None = None
    below: bytes | None = None
    lowest: bytes | None = None
    covered: int = 0
    is_exact: bool = False
    """Whether all records in the range satisfy the conditions."""
    is_empty: bool = False
    shown: Mapping[str, Any] | None = None


def record_bounds(
    collection: Collection, conditions: Mapping[str, list[Condition]], keys: KeySpace
) -> RecordBounds | None:
    """The range that the conditions allow; None if record keys do not depend on a field."""
    if collection.table == "oplog":
        path = "ts"
    elif collection.is_clustered:
        path = "_id"
    elif collection.table == "preimages":
        return _images(conditions.get("_id", ()))
    else:
        return None
    found = field_intervals(conditions.get(path, ()), keys, may_have_arrays=False)
    if found is None:
        return RecordBounds(path)
    if not found.intervals:
        return RecordBounds(path, is_empty=True)
    # Several points become one range from the first to the last; the filter drops the others.
    first, last = found.intervals[0], found.intervals[-1]
    is_exact = len(found.intervals) == 1
    if path == "ts":
        return _times(first, last, found.covered if is_exact else 0)
    shown = {"minRecord": first.text, "maxRecord": last.text}
    return RecordBounds(
        path,
        after=_below(first) if first.has_lower else first.lower + _END,
        highest=last.upper + _BEHIND_ALL,
        below=last.upper + _BEHIND_ALL,
        lowest=first.lower,
        shown=shown,
    )


def _times(first: Interval, last: Interval, covered: int) -> RecordBounds:
    low, high = _time(first.lower), _time(last.upper)
    if low is not None and not first.has_lower:
        low += 1
    if high is not None and not last.has_upper:
        high -= 1
    if high is not None and high < (low or 0):
        return RecordBounds("ts", is_empty=True)
    shown = {"minRecord": first.text, "maxRecord": last.text}
    return RecordBounds(
        "ts",
        after=pack_time(low - 1) if low else None,
        highest=None if high is None else pack_time(high),
        below=None if high is None or high == 2**64 - 1 else pack_time(high + 1),
        lowest=None if low is None else pack_time(low),
        covered=covered,
        is_exact=bool(covered),
        shown=shown,
    )


def _images(conditions: Sequence[Condition]) -> RecordBounds:
    """Bounds for pre-images, which are stored in the order of their identifiers: collection, time, index."""
    lowest, highest = 0, _LAST_IMAGE
    for operator, value in conditions:
        first, last = _image_key(value, 0), _image_key(value, _LAST_INDEX)
        if first is None or last is None:
            continue
        if operator in ("$eq", "$gte", "$gt"):
            lowest = max(lowest, first)
        if operator in ("$eq", "$lte", "$lt"):
            highest = min(highest, last)
    if lowest == 0 and highest == _LAST_IMAGE:
        return RecordBounds("_id")
    if lowest > highest:
        return RecordBounds("_id", is_empty=True)
    low, high = lowest.to_bytes(_IMAGE_SIZE), highest.to_bytes(_IMAGE_SIZE)
    return RecordBounds(
        "_id",
        after=(lowest - 1).to_bytes(_IMAGE_SIZE) if lowest else None,
        highest=high,
        below=None if highest == _LAST_IMAGE else (highest + 1).to_bytes(_IMAGE_SIZE),
        lowest=low,
        shown={"minRecord": low.hex(), "maxRecord": high.hex()},
    )


def _image_key(identifier: Any, index: int) -> int | None:
    """The record key of a pre-image as a number; None if this is no identifier.

    ``index`` replaces an `applyOpsIndex` that is no number, such as MaxKey.
    """
    if not isinstance(identifier, Mapping) or tuple(identifier) != ("nsUUID", "ts", "applyOpsIndex"):
        return None
    uuid, ts, number = identifier.values()
    if not isinstance(uuid, Binary) or uuid.subtype != UUID_SUBTYPE or len(uuid) != _UUID_SIZE:
        return None
    if not isinstance(ts, Timestamp):
        return None
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _LAST_INDEX:
        index = number
    return int.from_bytes(uuid + pack_time(from_timestamp(ts)) + index.to_bytes(8))


def _time(key: bytes) -> int | None:
    """The time of a KeyString; None for the end of the bracket, which is no bound for oplog entries."""
    return int.from_bytes(key[1:], "big") if len(key) == _TIME else None


def _below(interval: Interval) -> bytes:
    """A key directly below the first one in the range, which no record has."""
    if len(interval.lower) == 1:
        return bytes([interval.lower[0] - 1, 0xFF])
    return interval.lower + _JUST_BELOW_END
