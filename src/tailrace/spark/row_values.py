"""Convert BSON values to values of Spark's types.

`Conversions` compiles a Spark type into a function on the bytes of a BSON value, which returns what pyarrow
takes for a column of that type. A value that does not fit becomes null and is recorded in `faults`; the
caller decides what to do with the row.
"""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from math import isfinite
from struct import Struct
from typing import Any, Final, TypeAlias

from bson import Decimal128
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.dates import FIRST_DATE, LAST_DATE
from tailrace.errors import UsageError
from tailrace.events.cluster_time import seconds_of
from tailrace.lake.columns.variant import uuid_text, variant_of

Converter: TypeAlias = Callable[[bytes, int, int, int], Any]
"""From bytes, type byte, and where the value begins and ends, to the value; None for null."""

_DOUBLE_LE: Final = Struct("<d")
_NOTHING: Final = frozenset({rawbson.NULL, rawbson.UNDEFINED})
_INTEGER_BITS: Final[dict[type[DataType], int]] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_MILLISECONDS_PER_DAY: Final = 86_400_000


class _DoesNotFitError(ValueError):
    """A value that the requested type cannot hold."""


class Conversions:
    """Compiles types; `faults` describes the values that did not fit since it was last cleared."""

    def __init__(self, *, extended_json: bool = False) -> None:
        """With ``extended_json`` a text column shows other values than strings as Extended JSON."""
        self._extended_json = extended_json
        self.faults: list[str] = []

    def compile(self, data_type: DataType, path: str) -> Converter:
        """Return what converts a value of the field called ``path``."""
        convert = self._converter(data_type, path)
        faults = self.faults

        def safely(raw: bytes, kind: int, start: int, end: int) -> Any:
            if kind in _NOTHING:
                return None
            try:
                return convert(raw, kind, start, end)
            except (_DoesNotFitError, KeyError, OverflowError, InvalidOperation):
                faults.append(f"{path} is {_kind_name(kind)}, which is no {data_type.simpleString()}")
                return None

        return safely

    def _converter(self, data_type: DataType, path: str) -> Converter:
        if isinstance(data_type, VariantType):
            return _variant
        if isinstance(data_type, StringType | VarcharType | CharType):
            return self._text
        bits = _INTEGER_BITS.get(type(data_type))
        if bits is not None:
            return lambda raw, kind, start, _end: _integer(_number(raw, kind, start), bits)
        if isinstance(data_type, DecimalType):
            precision, scale = data_type.precision, data_type.scale
            return lambda raw, kind, start, _end: _decimal(_number(raw, kind, start), precision, scale)
        if isinstance(data_type, StructType):
            return self._struct(data_type, path)
        if isinstance(data_type, ArrayType):
            return self._array(data_type, path)
        if isinstance(data_type, MapType) and isinstance(data_type.keyType, StringType):
            return self._map(data_type, path)
        simple = _SIMPLE.get(type(data_type))
        if simple is None:
            raise UsageError(
                f"the column {path} cannot have the type {data_type.simpleString()}, which no BSON value "
                "has; choose another one, such as variant"
            )
        return simple

    def _struct(self, data_type: StructType, path: str) -> Converter:
        names = data_type.fieldNames()
        parts = {
            field.name.encode(): (field.name, self.compile(field.dataType, f"{path}.{field.name}"))
            for field in data_type.fields
        }

        def convert(raw: bytes, kind: int, start: int, _end: int) -> dict[str, Any]:
            _expect(kind, rawbson.DOCUMENT)
            found: dict[str, Any] = dict.fromkeys(names)
            for item, name, first, last in rawbson.elements(raw, start):
                part = parts.get(name)
                if part is not None:
                    found[part[0]] = part[1](raw, item, first, last)
            return found

        return convert

    def _array(self, data_type: ArrayType, path: str) -> Converter:
        convert_item = self.compile(data_type.elementType, f"{path}[]")

        def convert(raw: bytes, kind: int, start: int, _end: int) -> list[Any]:
            _expect(kind, rawbson.ARRAY)
            return [
                convert_item(raw, item, first, last) for item, _, first, last in rawbson.elements(raw, start)
            ]

        return convert

    def _map(self, data_type: MapType, path: str) -> Converter:
        convert_item = self.compile(data_type.valueType, f"{path}.*")

        def convert(raw: bytes, kind: int, start: int, _end: int) -> list[tuple[str, Any]]:
            _expect(kind, rawbson.DOCUMENT)
            return [
                (name.decode(), convert_item(raw, item, first, last))
                for item, name, first, last in rawbson.elements(raw, start)
            ]

        return convert

    def _text(self, raw: bytes, kind: int, start: int, end: int) -> str:
        if kind == rawbson.STRING:
            return rawbson.string_value(raw, start, end)
        if kind == rawbson.DOCUMENT:
            return extjson.dumps_canonical(raw[start:end])
        if not self._extended_json:
            if kind == rawbson.OBJECT_ID:
                return raw[start:end].hex()
            if kind in (rawbson.SYMBOL, rawbson.CODE):
                return rawbson.string_value(raw, start, end)
            if kind == rawbson.BINARY and (text := uuid_text(raw, start, end)) is not None:
                return text
            if kind in (rawbson.INT32, rawbson.INT64, rawbson.DOUBLE, rawbson.DECIMAL128):
                return str(_number(raw, kind, start))
        wrapped = extjson.dumps_canonical(rawbson.document(rawbson.element(kind, b"", raw[start:end])))
        return wrapped[len('{"": ') : -1]


def _expect(kind: int, wanted: int) -> None:
    if kind != wanted:
        raise _DoesNotFitError


def _variant(raw: bytes, kind: int, start: int, end: int) -> dict[str, bytes]:
    value, metadata = variant_of(raw, kind, start, end)
    return {"value": value, "metadata": metadata}


def _number(raw: bytes, kind: int, start: int) -> int | float | Decimal:
    """Read a number: a date as milliseconds, a BSON timestamp as its 64 bits, see `as_signed`."""
    if kind == rawbson.INT32:
        return int(rawbson.INT32_LE.unpack_from(raw, start)[0])
    if kind in (rawbson.INT64, rawbson.DATE, rawbson.TIMESTAMP):
        return int(rawbson.INT64_LE.unpack_from(raw, start)[0])
    if kind == rawbson.DOUBLE:
        return float(_DOUBLE_LE.unpack_from(raw, start)[0])
    if kind == rawbson.DECIMAL128:
        return Decimal128.from_bid(raw[start : start + 16]).to_decimal()
    raise _DoesNotFitError


def _integer(number: int | float | Decimal, bits: int) -> int:
    if isinstance(number, int):
        whole = number
    elif not isfinite(number) or number != int(number):
        raise _DoesNotFitError
    else:
        whole = int(number)
    if not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise _DoesNotFitError
    return whole


def _decimal(number: int | float | Decimal, precision: int, scale: int) -> Decimal:
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if not exact.is_finite():
        raise _DoesNotFitError
    digits = exact.as_tuple().digits
    exponent = exact.adjusted() - len(digits) + 1
    if exact and (exact.adjusted() >= precision - scale or _significant_exponent(digits, exponent) < -scale):
        raise _DoesNotFitError
    return exact


def _significant_exponent(digits: tuple[int, ...], exponent: int) -> int:
    """The exponent of the last digit that is not zero."""
    text = "".join(map(str, digits))
    return exponent + len(text) - len(text.rstrip("0"))


def _floating(raw: bytes, kind: int, start: int, _end: int) -> float:
    if kind in (rawbson.DATE, rawbson.TIMESTAMP):
        raise _DoesNotFitError
    return float(_number(raw, kind, start))


def _boolean(raw: bytes, kind: int, start: int, _end: int) -> bool:
    _expect(kind, rawbson.BOOL)
    return raw[start] != 0


def _milliseconds(raw: bytes, kind: int, start: int) -> int:
    if kind == rawbson.TIMESTAMP:
        return seconds_of(rawbson.UINT64_LE.unpack_from(raw, start)[0]) * 1000
    _expect(kind, rawbson.DATE)
    milliseconds = int(rawbson.INT64_LE.unpack_from(raw, start)[0])
    if not FIRST_DATE <= milliseconds <= LAST_DATE:
        raise _DoesNotFitError
    return milliseconds


def _timestamp(raw: bytes, kind: int, start: int, _end: int) -> int:
    return _milliseconds(raw, kind, start) * 1000


def _date(raw: bytes, kind: int, start: int, _end: int) -> int:
    return _milliseconds(raw, kind, start) // _MILLISECONDS_PER_DAY


def _bytes(raw: bytes, kind: int, start: int, end: int) -> bytes:
    if kind == rawbson.BINARY:
        return raw[start + 5 : end]
    if kind in (rawbson.DOCUMENT, rawbson.OBJECT_ID):
        return raw[start:end]
    raise _DoesNotFitError


def _null(_raw: bytes, _kind: int, _start: int, _end: int) -> None:
    raise _DoesNotFitError


def _kind_name(kind: int) -> str:
    return _KIND_NAMES.get(kind, f"of the BSON type 0x{kind:02x}")


_SIMPLE: Final[dict[type[DataType], Converter]] = {
    FloatType: _floating,
    DoubleType: _floating,
    BooleanType: _boolean,
    TimestampType: _timestamp,
    TimestampNTZType: _timestamp,
    DateType: _date,
    BinaryType: _bytes,
    NullType: _null,
}
_KIND_NAMES: Final = {
    rawbson.DOUBLE: "a double", rawbson.STRING: "a string", rawbson.DOCUMENT: "a document",
    rawbson.ARRAY: "an array", rawbson.BINARY: "binary data", rawbson.OBJECT_ID: "an ObjectId",
    rawbson.BOOL: "a boolean", rawbson.DATE: "a date", rawbson.INT32: "an int", rawbson.INT64: "a long",
    rawbson.TIMESTAMP: "a timestamp", rawbson.DECIMAL128: "a decimal",
}  # fmt: skip
