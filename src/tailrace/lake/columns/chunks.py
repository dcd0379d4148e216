"""Sort the values of a field by what can hold them, and convert them to Arrow, many at a time.

A *class* of values is what a column type holds all or none of: whole numbers up to 2**53 are one, larger ones
another, because a double holds the first exactly and not the second.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from bson import Decimal128

from tailrace.bson import raw as rawbson
from tailrace.bson.dates import FIRST_DATE, LAST_DATE, MICROSECONDS
from tailrace.lake.bulk.splicing import HEX_LOWER, Group, hexed, spliced
from tailrace.lake.columns.column_types import DECIMAL, DECIMAL_PRECISION, DECIMAL_SCALE
from tailrace.lake.columns.shredded import ShreddedValues

Rows: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

EXACT_IN_DOUBLE: Final = 2**53
_UUID_SUBTYPE: Final = 4
_UUID_SIZE: Final = 4 + 1 + 16
_LEAD: Final = 4 + 1
"""Length and subtype of binary data"""

HELD_BY: Final[Mapping[str, frozenset[str]]] = {
    "boolean": frozenset({"boolean"}),
    "long": frozenset({"int", "wide", "whole"}),
    "double": frozenset({"int", "whole", "fraction"}),
    "decimal": frozenset({"int", "wide", "whole", "decimal"}),
    "string": frozenset({"string"}),
    "objectid": frozenset({"objectid"}),
    "uuid": frozenset({"uuid"}),
    "binary": frozenset({"binary", "bytes"}),
    "timestamp": frozenset({"date"}),
    "struct": frozenset({"struct"}),
    "array": frozenset({"array"}),
}
"""The classes that each type of a column holds exactly; JSON and VARIANT hold every one"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """ShreddedValues of one class."""

    of: str
    """The class"""
    kind: int
    rows: Rows
    array: pa.Array | None
    """The values as Arrow; None for nested ones, and for those that have no type in Arrow"""
    values: ShreddedValues
    places: Rows | None
    """Which of `values` these are; None for all"""

    def chosen(self, flags: Flags) -> "Chunk":
        places = np.flatnonzero(flags) if self.places is None else self.places[flags]
        array = None if self.array is None else self.array.filter(pa.array(flags))
        return Chunk(self.of, self.kind, self.rows[flags], array, self.values, places)

    def of_values(self, facts: Rows) -> Rows:
        """What is known of each of `values`, for those of the chunk."""
        return facts if self.places is None else facts[self.places]

    def slices(self) -> list[bytes]:
        """The bytes of the values; of strings only the text."""
        slices = self.values.slices()
        return slices if self.places is None else [slices[place] for place in self.places]


def chunks_of(values: ShreddedValues) -> Sequence[Chunk]:
    """The values of one BSON type, by class; nulls are in none."""
    if values.chunks is None:
        values.chunks = [*_chunks(values)]
    found: Sequence[Chunk] = values.chunks
    return found


def _chunks(values: ShreddedValues) -> Iterator[Chunk]:
    kind = values.kind
    rows = values.rows
    if kind == rawbson.NULL:
        return
    if kind == rawbson.INT32:
        numbers = values.numbers("<i4").astype(np.int64)
        yield Chunk("int", kind, rows, pa.array(numbers), values, None)
    elif kind == rawbson.INT64:
        numbers = values.numbers("<i8")
        is_small = (numbers >= -EXACT_IN_DOUBLE) & (numbers <= EXACT_IN_DOUBLE)
        yield from _split(values, rows, pa.array(numbers), (("int", is_small), ("wide", ~is_small)))
    elif kind == rawbson.DOUBLE:
        floats = values.numbers("<f8")
        is_whole = np.abs(floats) <= EXACT_IN_DOUBLE
        is_whole &= (np.floor(floats) == floats) & ~((floats == 0) & np.signbit(floats))
        yield from _split(values, rows, pa.array(floats), (("whole", is_whole), ("fraction", ~is_whole)))
    elif kind in (rawbson.STRING, rawbson.SYMBOL):
        yield from _texts(values, rows)
    elif kind == rawbson.OBJECT_ID:
        digits = spliced(
            len(rows), [Group(np.arange(len(rows)), [hexed(values.matrix(12), HEX_LOWER)])], pa.string()
        )
        yield Chunk("objectid", kind, rows, digits, values, None)
    elif kind == rawbson.BOOL:
        truth = values.numbers("u1") != 0
        yield Chunk("boolean", kind, rows, pa.array(truth), values, None)
    elif kind == rawbson.DATE:
        yield from _dates(values, rows)
    elif kind == rawbson.BINARY:
        yield from _binaries(values, rows)
    elif kind == rawbson.DECIMAL128:
        yield from _decimals(values, rows)
    elif kind in (rawbson.DOCUMENT, rawbson.ARRAY):
        name = "struct" if kind == rawbson.DOCUMENT else "array"
        yield Chunk("deep" if values.inner is None else name, kind, rows, None, values, None)
    else:
        yield Chunk("other", kind, rows, None, values, None)


def _split(values: ShreddedValues, rows: Rows, array: pa.Array, parts: Any) -> Iterator[Chunk]:
    whole = Chunk(parts[0][0], values.kind, rows, array, values, None)
    for name, flags in parts:
        if flags.all():
            if len(rows):
                yield Chunk(name, values.kind, rows, array, values, None)
            return
        if flags.any():
            part = whole.chosen(flags)
            yield Chunk(name, part.kind, part.rows, part.array, values, part.places)


def _texts(values: ShreddedValues, rows: Rows) -> Iterator[Chunk]:
    encoded = values.texts()
    try:
        yield Chunk("string", values.kind, rows, encoded.cast(pa.string()), values, None)
    except pa.ArrowInvalid:
        sound = np.array([_is_utf8(text) for text in values.slices()])
        for chunk in _split(values, rows, encoded, (("string", sound), ("bytes", ~sound))):
            assert chunk.array is not None
            array = chunk.array.cast(pa.string()) if chunk.of == "string" else chunk.array
            yield Chunk(chunk.of, chunk.kind, chunk.rows, array, values, chunk.places)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _dates(values: ShreddedValues, rows: Rows) -> Iterator[Chunk]:
    milliseconds = values.numbers("<i8")
    is_near = (milliseconds >= FIRST_DATE) & (milliseconds <= LAST_DATE)
    moments = pa.array(np.where(is_near, milliseconds, 0) * MICROSECONDS, pa.timestamp("us", tz="UTC"))
    yield from _split(values, rows, moments, (("date", is_near), ("far_date", ~is_near)))


def _binaries(values: ShreddedValues, rows: Rows) -> Iterator[Chunk]:
    slices = values.slices()
    is_uuid = np.array([len(value) == _UUID_SIZE and value[4] == _UUID_SUBTYPE for value in slices])
    payloads = pa.array([_payload(value) for value in slices], pa.binary())
    for chunk in _split(values, rows, payloads, (("uuid", is_uuid), ("binary", ~is_uuid))):
        if chunk.of == "binary":
            yield chunk
            continue
        assert chunk.array is not None
        texts = pa.array([str(UUID(bytes=value)) for value in chunk.array.to_pylist()], pa.string())
        yield Chunk("uuid", chunk.kind, chunk.rows, texts, values, chunk.places)


def _payload(value: bytes) -> bytes:
    """The bytes of binary data; the old subtype repeats their length."""
    inner = _LEAD + 4
    size = rawbson.INT32_LE.pack(len(value) - inner)
    is_repeated = value[4] == rawbson.OLD_BINARY_SUBTYPE and value[_LEAD:inner] == size
    return value[inner if is_repeated else _LEAD :]


_CONTEXT: Final = Context(prec=DECIMAL_PRECISION, traps=[InvalidOperation])


def exact_decimal(number: Decimal, scale: int, precision: int = DECIMAL_PRECISION) -> Decimal | None:
    """The number with ``scale`` digits after the point; None if that is another number, or too long.

    >>> exact_decimal(Decimal("1.50"), 1), exact_decimal(Decimal("0.05"), 1)
    (Decimal('1.5'), None)
    """
    if not number.is_finite() or (number.is_zero() and number.is_signed()):
        return None
    try:
        found = number.quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)
    except InvalidOperation:
        return None
    return found if found == number and len(found.as_tuple().digits) <= precision else None


def _decimals(values: ShreddedValues, rows: Rows) -> Iterator[Chunk]:
    numbers = [
        exact_decimal(Decimal128.from_bid(value).to_decimal(), DECIMAL_SCALE) for value in values.slices()
    ]
    is_near = np.array([number is not None for number in numbers])
    array = pa.array(numbers, DECIMAL.arrow)
    yield from _split(values, rows, array, (("decimal", is_near), ("far_decimal", ~is_near)))
