"""Read many BSON documents in step: those with the same fields of the same types are one group.

The documents of a collection have few different shapes. A group is read once: where its fields begin and end
is computed for all documents together. Documents that are rare or hold rare types are left to be read one
by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.lake.bulk.splicing import PADDING, Bytes, Positions, have_bytes, items

Flags = npt.NDArray[np.bool_]

_MOST_GROUPS: Final = 64
_USUAL_ROWS: Final = 32
"""More groups are made if they have this many documents on average"""
_FEW_ROWS: Final = 8
"""Fewer documents are read in depth sooner one by one than together"""
_MOST_LEVELS: Final = 64
_MOST_FIELDS: Final = 255
_NESTED: Final = frozenset({rawbson.DOCUMENT, rawbson.ARRAY})


class UnevenError(Exception):
    """Something that has to be read document by document, perhaps because it is damaged."""


@dataclass(frozen=True, slots=True)
class FieldRun:
    """One field of all documents of a group: where its values begin and end."""

    kind: int
    name: bytes
    starts: Positions
    ends: Positions

    def chosen(self, rows: Flags) -> "FieldRun":
        return FieldRun(self.kind, self.name, self.starts[rows], self.ends[rows])


END: Final = FieldRun(0, b"", np.empty(0, np.int64), np.empty(0, np.int64))
"""In place of a field: the nested document or array that was opened last ends here"""


@dataclass(frozen=True, slots=True)
class AlikeGroup:
    """Documents with the same fields."""

    rows: Positions
    """Which documents, by their number"""
    fields: Sequence[FieldRun]
    """If they were read in depth, a nested document is followed by its fields and `END`"""

    def chosen(self, rows: Flags) -> "AlikeGroup":
        fields = [field if field is END else field.chosen(rows) for field in self.fields]
        return AlikeGroup(self.rows[rows], fields)


@dataclass(slots=True)
class _Reading:
    """Documents that are alike so far."""

    rows: Positions
    at: Positions
    stops: list[Positions]
    """The last byte of the document, and of the nested ones that are open"""
    fields: list[FieldRun]

    def chosen(self, rows: Flags) -> "_Reading":
        group = AlikeGroup(self.rows, self.fields).chosen(rows)
        return _Reading(group.rows, self.at[rows], [stop[rows] for stop in self.stops], [*group.fields])


def padded_buffer(column: pa.Array) -> tuple[Bytes, Positions]:
    """The bytes of a binary column, padded for `items`, and its offsets in them."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(column.buffers()[2], np.uint8)[first:last]
    return data, offsets.astype(np.int64) - first


def groups_of(
    data: Bytes, starts: Positions, ends: Positions, *, in_depth: bool = False
) -> tuple[list[AlikeGroup], Positions]:
    """Groups of alike documents, and which documents are in none.

    Raises `UnevenError` if one is damaged, as far as it was read.
    """
    if not len(starts):
        return [], np.empty(0, np.int64)
    _check(items(data, "<i4")[starts] == ends - starts, ends - starts >= len(rawbson.EMPTY))
    _check(data[ends - 1] == 0)
    finished: list[AlikeGroup] = []
    odd: list[Positions] = []
    pending = [_Reading(np.arange(len(starts)), starts + 4, [ends - 1], [])]
    most = max(_MOST_GROUPS, len(starts) // _USUAL_ROWS)
    while pending:
        if len(pending) + len(finished) > most:
            odd += [reading.rows for reading in pending]
            break
        reading = pending.pop()
        if in_depth and len(reading.rows) < _FEW_ROWS:
            odd.append(reading.rows)
        elif _read_on(data, reading, pending, in_depth=in_depth):
            finished.append(AlikeGroup(reading.rows, reading.fields))
        else:
            odd.append(reading.rows)
    return finished, np.sort(np.concatenate(odd)) if odd else np.empty(0, np.int64)


def _read_on(data: Bytes, reading: _Reading, pending: list[_Reading], *, in_depth: bool) -> bool:
    """Read to the end what is like the first document; the others are pending. False for rare types."""
    while reading.stops:
        if len(reading.fields) > _MOST_FIELDS or len(reading.stops) > _MOST_LEVELS:
            return False
        is_over = reading.at == reading.stops[-1]
        first_is_over = bool(is_over[0])
        _keep(reading, is_over if first_is_over else ~is_over, pending)
        if first_is_over:
            reading.stops.pop()
            reading.at = reading.at + 1
            if reading.stops:
                reading.fields.append(END)
            continue
        _check(reading.at < reading.stops[-1])
        head = _head(data, int(reading.at[0]), int(reading.stops[-1][0]))
        _keep(reading, have_bytes(data, reading.at, head), pending)
        kind, starts = head[0], reading.at + len(head)
        ends = _ends(data, kind, starts, reading.stops[-1])
        if ends is None:
            return False
        reading.fields.append(FieldRun(kind, head[1:-1], starts, ends))
        if in_depth and kind in _NESTED:
            reading.stops.append(ends - 1)
            reading.at = starts + 4
        else:
            reading.at = ends
    return True


def _keep(reading: _Reading, rows: Flags, pending: list[_Reading]) -> None:
    """Go on with some of the documents."""
    if rows.all():
        return
    pending.append(reading.chosen(~rows))
    chosen = reading.chosen(rows)
    reading.rows, reading.at = chosen.rows, chosen.at
    reading.stops[:], reading.fields[:] = chosen.stops, chosen.fields


def _head(data: Bytes, place: int, stop: int) -> bytes:
    """The type and the name of the element at a place, with the NUL after it."""
    raw = data[place : min(place + 64, stop)].tobytes()
    end = raw.find(0, 1)
    if end < 0:
        raw = data[place:stop].tobytes()
        end = raw.find(0, 1)
    if end < 0:
        raise UnevenError
    return raw[: end + 1]


def _ends(data: Bytes, kind: int, starts: Positions, stops: Positions) -> Positions | None:
    """Where values end; None for types that are left to others."""
    size = rawbson.FIXED_SIZE.get(kind)
    if size is not None:
        ends = starts + size
        _check(ends <= stops)
        return ends
    if kind not in rawbson.LENGTH_PREFIXED and kind not in _NESTED and kind != rawbson.BINARY:
        return None
    _check(starts + 4 <= stops)
    sizes = items(data, "<i4")[starts].astype(np.int64)
    if kind in _NESTED:
        _check(sizes >= len(rawbson.EMPTY))
        ends = starts + sizes
    else:
        _check(sizes >= (0 if kind == rawbson.BINARY else 1))
        ends = starts + sizes + (5 if kind == rawbson.BINARY else 4)
    _check(ends <= stops)
    if kind != rawbson.BINARY:
        _check(data[ends - 1] == 0)
    return ends


def _check(*sound: Flags) -> None:
    if not all(flags.all() for flags in sound):
        raise UnevenError
