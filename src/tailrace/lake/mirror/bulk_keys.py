"""The keys of many documents at the same time: those that `id_key` makes of each."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.bson.id_key import id_key
from tailrace.bson.keystring import END, layout
from tailrace.lake.bulk.splicing import (
    Bytes,
    Group,
    Positions,
    Slices,
    big_endian,
    have_bytes,
    items,
    lines,
    slices_of,
    spliced,
)
from tailrace.lake.columns.bulk.alike import padded_buffer

_NAME: Final = b"_id\0"
_VALUE: Final = 4 + 1 + len(_NAME)
"""Where the value of `_id` begins, if that is the first field"""
_END: Final = bytes([END])
_UUID_SIZE: Final = 16
_INTEGERS: Final = {rawbson.INT32: "<i4", rawbson.INT64: "<i8"}


def row_keys(documents: pa.Array) -> pa.Array:
    r"""The key of each document of a binary column.

    >>> from tailrace.bson.documents import encode
    >>> row_keys(pa.array([encode({"_id": 5}), encode({"a": 1, "_id": "b"})])).to_pylist()
    [b'+\n\x04', b'<b\x00\x04']
    """
    data, offsets = padded_buffer(documents)
    starts = offsets[:-1]
    is_first = have_bytes(data, starts + 5, _NAME)
    kinds = np.where(is_first, data[starts + 4], 0)
    groups: list[Group] = []
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        groups += _groups(data, int(kind), rows, starts[rows] + _VALUE)
    left = np.ones(len(documents), np.bool_)
    for group in groups:
        left[group.rows] = False
    others = np.flatnonzero(left)
    if len(others):
        found = [id_key(document) for document in documents.take(pa.array(others)).to_pylist()]
        groups.append(Group(others, [slices_of(found)]))
    return spliced(len(documents), groups, pa.binary())


def _groups(data: Bytes, kind: int, rows: Positions, values: Positions) -> Iterator[Group]:
    """The keys of values of one type; those that are in no group are rare."""
    if kind in _INTEGERS:
        yield from _integers(rows, items(data, _INTEGERS[kind])[values].astype(np.int64))
    elif kind == rawbson.OBJECT_ID:
        yield Group(rows, [bytes([layout.OBJECT_ID]), lines(data, values, 12), _END])
    elif kind == rawbson.STRING:
        yield from _strings(data, rows, values)
    elif kind == rawbson.BINARY:
        is_uuid = items(data, "<i4")[values] == _UUID_SIZE
        # In BSON the subtype is directly before the bytes, as here.
        found = lines(data, values[is_uuid] + 4, 1 + _UUID_SIZE)
        yield Group(rows[is_uuid], [bytes([layout.BINARY, _UUID_SIZE]), found, _END])


def _integers(rows: Positions, numbers: npt.NDArray[np.int64]) -> Iterator[Group]:
    """Twice the magnitude, in as few bytes as it needs; complemented for negative numbers."""
    is_usual = numbers != np.iinfo(np.int64).min  # that one has the form of a large double
    rows, numbers = rows[is_usual], numbers[is_usual]
    doubled = np.abs(numbers).astype(np.uint64) << np.uint64(1)
    payloads = big_endian(np.where(numbers < 0, ~doubled, doubled))
    sizes = sum((doubled >= np.uint64(1 << 8 * width)).astype(np.int64) for width in range(8))
    signed = sizes * np.sign(numbers)
    for size in np.unique(signed).tolist():
        chosen = signed == size
        lead = bytes([layout.ZERO + size + (size > 0) - (size < 0)])
        payload = payloads[chosen, 8 - abs(size) :]
        yield Group(rows[chosen], [lead, np.ascontiguousarray(payload), _END] if size else [lead, _END])


def _strings(data: Bytes, rows: Positions, values: Positions) -> Iterator[Group]:
    sizes = items(data, "<i4")[values].astype(np.int64) - 1
    # Those with null bytes are written in another way.
    zeros = np.flatnonzero(data == 0)
    ends = zeros[np.searchsorted(zeros, values + 4)]
    is_plain = ends == values + 4 + sizes
    texts = Slices(data, values[is_plain] + 4, sizes[is_plain])
    yield Group(rows[is_plain], [bytes([layout.STRING]), texts, b"\0" + _END])
