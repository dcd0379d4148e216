"""Extended JSON of many documents at the same time.

Canonical, the text of `extjson.dumps_canonical`; or relaxed, that of `json_text`.
"""

from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.dates import LAST_DATE
from tailrace.errors import BsonError
from tailrace.lake.bulk.splicing import (
    HEX_LOWER,
    Bytes,
    Group,
    Piece,
    Positions,
    Slices,
    chosen,
    hexed,
    items,
    lines,
    padded,
    slices_of,
    spliced,
)
from tailrace.lake.columns.bulk.alike import END, AlikeGroup, FieldRun, Flags, padded_buffer
from tailrace.lake.columns.bulk.pieces import ApartError, all_of
from tailrace.lake.columns.json_text import json_text

_BOOLEANS: Final = padded([b"true", b"false"])
_IS_ESCAPED: Final = np.array([byte < 0x20 or byte in b'"\\' for byte in range(256)], np.bool_)
_NUMBERS: Final = {
    rawbson.INT32: ("<i4", b'{"$numberInt": "', b'"}'),
    rawbson.INT64: ("<i8", b'{"$numberLong": "', b'"}'),
    rawbson.DATE: ("<i8", b'{"$date": {"$numberLong": "', b'"}}'),
}


def write_json(data: Bytes, group: AlikeGroup, *, relaxed: bool = False) -> list[Piece]:
    """The text of documents that were read in depth."""
    pieces: list[Piece] = []
    writer = _RelaxedWriter if relaxed else _Writer
    writer(data, group, pieces).nested(iter([*group.fields, END]), is_array=False)
    return _joined(pieces)


class _Writer:
    def __init__(self, data: Bytes, group: AlikeGroup, pieces: list[Piece]) -> None:
        self._data = data
        self._group = group
        self._pieces = pieces

    def nested(self, fields: Iterator[FieldRun], *, is_array: bool) -> None:
        """Write a document or an array whose fields come next, up to its end."""
        write = self._pieces.append
        write(b"[" if is_array else b"{")
        separator = b""
        for field in fields:
            if field is END:
                break
            try:
                name = b"" if is_array else encode_basestring(field.name.decode()).encode() + b": "
            except ValueError:
                raise ApartError(all_of(self._group), one_by_one=True) from None
            write(separator + name)
            if field.kind in (rawbson.DOCUMENT, rawbson.ARRAY):
                self.nested(fields, is_array=field.kind == rawbson.ARRAY)
            else:
                self._scalar(field)
            separator = b", "
        write(b"]" if is_array else b"}")

    def _scalar(self, field: FieldRun) -> None:
        data, starts, pieces = self._data, field.starts, self._pieces
        number = _NUMBERS.get(field.kind)
        if number is not None:
            kind, before, after = number
            pieces += (before, _digits(items(data, kind)[starts]), after)
        elif field.kind == rawbson.STRING:
            pieces += (b'"', self._text(field), b'"')
        elif field.kind == rawbson.OBJECT_ID:
            pieces += (b'{"$oid": "', hexed(lines(data, starts, 12), HEX_LOWER), b'"}')
        elif field.kind == rawbson.DOUBLE:
            pieces += (b'{"$numberDouble": "', _doubles(items(data, "<f8")[starts]), b'"}')
        elif field.kind == rawbson.BOOL:
            is_true = data[starts] != 0
            pieces.append(Slices(_BOOLEANS, np.where(is_true, 0, 4), np.where(is_true, 4, 5)))
        elif field.kind == rawbson.TIMESTAMP:
            pieces += timestamp_pieces(data, starts)
        elif field.kind == rawbson.NULL:
            pieces.append(b"null")
        else:
            raise ApartError(all_of(self._group), one_by_one=True)

    def _text(self, field: FieldRun) -> Slices:
        sizes = field.ends - field.starts - 5
        rows = np.arange(len(sizes))
        column = spliced(
            len(sizes), [Group(rows, [Slices(self._data, field.starts + 4, sizes)])], pa.binary()
        )
        text, offsets = padded_buffer(column)
        is_escaped = _IS_ESCAPED[text[: offsets[-1]]]
        if is_escaped.any():
            apart: Flags = np.zeros(len(sizes), np.bool_)
            apart[np.searchsorted(offsets, np.flatnonzero(is_escaped), "right") - 1] = True
            raise ApartError(apart, one_by_one=True)
        return Slices(text, offsets[:-1], sizes)


_WRITTEN: Final = frozenset({
    rawbson.STRING, rawbson.OBJECT_ID, rawbson.BOOL, rawbson.TIMESTAMP, rawbson.NULL,
})  # fmt: skip
"""The types that canonical and relaxed texts show alike"""


class _RelaxedWriter(_Writer):
    """Numbers and dates as queries compare them."""

    def _scalar(self, field: FieldRun) -> None:
        data, starts, pieces = self._data, field.starts, self._pieces
        if field.kind in (rawbson.INT32, rawbson.INT64):
            pieces.append(_digits(items(data, _NUMBERS[field.kind][0])[starts]))
        elif field.kind == rawbson.DOUBLE:
            numbers = items(data, "<f8")[starts]
            self._need(np.isfinite(numbers))
            pieces.append(_doubles(numbers))
        elif field.kind == rawbson.DATE:
            milliseconds = items(data, "<i8")[starts]
            self._need((milliseconds >= 0) & (milliseconds <= LAST_DATE))
            moments = np.datetime_as_string(milliseconds.astype("datetime64[ms]"), unit="ms")
            texts = moments.astype("S23").view(np.uint8).reshape(len(starts), -1)
            pieces += (b'{"$date": "', texts, b'Z"}')
        elif field.kind in _WRITTEN:
            super()._scalar(field)
        else:
            pieces.append(self._each(field))

    def _each(self, field: FieldRun) -> Piece:
        """Rare types, one value by one; of equal ones, as the UUID of a collection, only one."""
        sizes = field.ends - field.starts
        pieces = [Slices(self._data, field.starts, sizes)]
        column = spliced(len(sizes), [Group(np.arange(len(sizes)), pieces)], pa.binary()).dictionary_encode()
        try:
            texts = [json_text(value, field.kind).encode() for value in column.dictionary.to_pylist()]
        except BsonError:
            raise ApartError(all_of(self._group), one_by_one=True) from None
        return chosen(texts, column.indices.to_numpy().astype(np.int64))

    def _need(self, flags: Flags) -> None:
        if not flags.all():
            raise ApartError(~flags, one_by_one=True)


def timestamp_pieces(data: Bytes, starts: Positions) -> Sequence[Piece]:
    """Timestamps that begin at some positions."""
    words = items(data, "<u4")
    return (
        b'{"$timestamp": {"t": ', _digits(words[starts + 4]), b', "i": ', _digits(words[starts]), b"}}",
    )  # fmt: skip


def _digits(numbers: npt.NDArray[Any]) -> Slices:
    text, offsets = padded_buffer(pa.array(numbers).cast(pa.string()))
    return Slices(text, offsets[:-1], np.diff(offsets))


def _doubles(numbers: npt.NDArray[Any]) -> Slices:
    return slices_of([extjson.double_text(number).encode() for number in numbers.tolist()])


def _joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces, those that all rows share and that follow each other as one."""
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined
