"""VARIANT of many documents at the same time: the bytes of `variant.py`, which has the format."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from tailrace.bson import raw as rawbson
from tailrace.bson.dates import FIRST_DATE, LAST_DATE
from tailrace.lake.bulk.splicing import (
    HEX_LOWER,
    Bytes,
    Piece,
    Positions,
    Slices,
    hexed,
    items,
    lines,
    little_endian,
)
from tailrace.lake.columns import variant
from tailrace.lake.columns.bulk.alike import END, AlikeGroup, FieldRun
from tailrace.lake.columns.bulk.pieces import ApartError, Length, Written, all_of, padded_lines

_MAX_SHORT: Final = 63
_OFFSETS: Final = {1: "<u1", 2: "<u2", 4: "<u4"}
_LONG_STRING: Final = 0x40
_FIXED: Final = {rawbson.INT32: (b"\x14", 4), rawbson.INT64: (b"\x18", 8), rawbson.DOUBLE: (b"\x1c", 8)}


def write_variants(data: Bytes, group: AlikeGroup) -> tuple[list[Piece], list[Piece]]:
    """Value and metadata of documents that were read in depth."""
    names: variant.Names = {}
    writer = _Writer(data, group, names)
    value = writer.nested(iter([*group.fields, END]), is_array=False)
    return list(value.pieces), [variant.metadata_of(tuple(names))]


class _Writer:
    def __init__(self, data: Bytes, group: AlikeGroup, names: variant.Names) -> None:
        self._data = data
        self._group = group
        self._names = names

    def nested(self, fields: Iterator[FieldRun], *, is_array: bool) -> Written:
        """A document or an array whose fields come next, up to its end."""
        own: list[bytes] = []
        values: list[Written] = []
        for field in fields:
            if field is END:
                break
            if not is_array:
                own.append(field.name)
                self._names.setdefault(field.name, len(self._names))
            if field.kind in (rawbson.DOCUMENT, rawbson.ARRAY):
                values.append(self.nested(fields, is_array=field.kind == rawbson.ARRAY))
            else:
                values.append(self._scalar(field))
        if len(set(own)) < len(own):
            raise ApartError(all_of(self._group), one_by_one=True)
        return self._joined(own, values, is_array=is_array)

    def _joined(self, own: list[bytes], values: list[Written], *, is_array: bool) -> Written:
        offsets: list[Length] = [0]
        for value in values:
            offsets.append(offsets[-1] + value.length)
        if is_array:
            order = [*range(len(values))]
            lead, width = variant.array_lead(len(values), self._largest(offsets[-1]))
        else:
            order = sorted(range(len(own)), key=own.__getitem__)
            ids = [self._names[own[index]] for index in order]
            lead, width = variant.object_lead(ids, self._largest(offsets[-1]))
        shown = [offsets[index] for index in (*order, -1)]
        pieces: list[Piece] = [lead, *[_offset(offset, width) for offset in shown]]
        for value in values:
            pieces += value.pieces
        return Written(pieces, offsets[-1] + len(lead) + width * (len(values) + 1))

    def _largest(self, length: Length) -> int:
        """A length that stands for all; divides the group if they need different widths."""
        if isinstance(length, int):
            return length
        least, largest = int(length.min()), int(length.max())
        if variant.width_of(least) != variant.width_of(largest):
            raise ApartError(length > variant.most_of(variant.width_of(least)), one_by_one=False)
        return largest

    def _scalar(self, field: FieldRun) -> Written:
        data, starts = self._data, field.starts
        fixed = _FIXED.get(field.kind)
        if fixed is not None:
            header, size = fixed
            return Written([header, lines(data, starts, size)], 1 + size)
        if field.kind == rawbson.STRING:
            return self._text(field)
        if field.kind == rawbson.OBJECT_ID:
            return Written([variant.short_lead(24), hexed(lines(data, starts, 12), HEX_LOWER)], 25)
        if field.kind == rawbson.BOOL:
            shown = np.where(data[starts] != 0, variant.TRUE[0], variant.FALSE[0])
            return Written([shown.astype(np.uint8).reshape(-1, 1)], 1)
        if field.kind == rawbson.NULL:
            return Written([variant.NULL], 1)
        if field.kind == rawbson.DATE:
            dates = items(data, "<i8")[starts]
            is_wrong = (dates < FIRST_DATE) | (dates > LAST_DATE)
            if is_wrong.any():
                raise ApartError(is_wrong, one_by_one=True)
            return Written([variant.TIMESTAMP, little_endian(dates * 1000, "<i8")], 9)
        if field.kind == rawbson.TIMESTAMP:
            return self._timestamp(field)
        raise ApartError(all_of(self._group), one_by_one=True)

    def _timestamp(self, field: FieldRun) -> Written:
        """As in Extended JSON: ``{$timestamp: {t: <seconds>, i: <increment>}}``."""
        words = items(self._data, "<u4")
        halves = [(b"t", words[field.starts + 4]), (b"i", words[field.starts])]
        for name in (b"$timestamp", b"t", b"i"):
            self._names.setdefault(name, len(self._names))
        longs = [(name, Written([b"\x18", little_endian(half, "<i8")], 9)) for name, half in halves]
        return self._framed([(b"$timestamp", self._framed(longs))])

    def _framed(self, fields: list[tuple[bytes, Written]]) -> Written:
        return self._joined([name for name, _ in fields], [value for _, value in fields], is_array=False)

    def _text(self, field: FieldRun) -> Written:
        sizes: Positions = field.ends - field.starts - 5
        is_short = sizes <= _MAX_SHORT
        text = Slices(self._data, field.starts + 4, sizes)
        if is_short.all():
            return Written([little_endian(sizes << 2 | 1, "<u1"), text], sizes + 1)
        headers = np.empty((len(sizes), 5), np.uint8)
        headers[:, 0] = np.where(is_short, sizes << 2 | 1, _LONG_STRING)
        headers[:, 1:] = little_endian(sizes, "<i4")
        lengths = np.where(is_short, 1, 5)
        lead = Slices(padded_lines(headers), np.arange(len(sizes)) * 5, lengths)
        return Written([lead, text], sizes + lengths)


def _offset(offset: Length, width: int) -> Piece:
    if isinstance(offset, int):
        return offset.to_bytes(width, "little")
    return little_endian(offset, _OFFSETS[width])
