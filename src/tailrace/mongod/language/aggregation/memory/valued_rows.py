"""Rows with the value of an expression, sorted by it."""

from collections.abc import Callable
from typing import Any, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.mongod.language.aggregation.memory.budget import ROW_OVERHEAD, size_of
from tailrace.mongod.language.aggregation.memory.runs import Keyed
from tailrace.mongod.language.aggregation.memory.sorter import Codec
from tailrace.mongod.language.aggregation.rows import Row, pack, unpack

ValuedRow: TypeAlias = tuple[Any, Row]


def valued_rows(key_of: Callable[[Any, Row], Any]) -> Codec[ValuedRow]:
    """How a sorter stores such rows; ``key_of`` makes the sort key of a value and a row."""

    def unpacked(record: bytes) -> Keyed[ValuedRow]:
        end = rawbson.INT32_LE.unpack_from(record)[0]
        value = decode(record[:end])[""]
        row = unpack(record[end:])
        return key_of(value, row), (value, row)

    return Codec(_size, _packed, unpacked)


def _size(valued: ValuedRow) -> int:
    return size_of(valued[0]) + len(valued[1].stored) + ROW_OVERHEAD


def _packed(valued: ValuedRow) -> bytes:
    return encode({"": valued[0]}) + pack(valued[1])
