"""Documents as Spark's types: VARIANT, and the types of a user's schema."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    encode,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantVal,
)

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.errors import BsonError, UsageError
from tailrace.lake.columns.variant import variant_of
from tailrace.pipeline.rows.schema import FaultMode, Output, RowLayout
from tailrace.spark.row_values import Conversions
from tests.laws.law_seeds import BASE_SEED
from tests.support.documents import DocumentMaker

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_DATE = 253_402_300_799_999


def variant(raw: bytes) -> tuple[bytes, bytes]:
    return variant_of(raw, rawbson.DOCUMENT, 0, len(raw))


def as_variant(document: dict[str, Any]) -> Any:
    return VariantVal(*variant(documents.encode(document))).toPython()


def test_every_bson_type_as_a_variant() -> None:
    uuid = UUID(int=7)
    key = ObjectId()
    shown = as_variant(
        {
            "int": 1,
            "long": Int64(1 << 40),
            "double": -0.5,
            "short text": "é" * 31,
            "long text": "x" * 64,
            "empty": "",
            "yes": True,
            "no": False,
            "null": None,
            "array": [1, [], {"a": [None]}],
            "document": {"b": 1, "a": {"c": 2}},
            "nothing": {},
            "key": key,
            "date": DatetimeMS(1_500),
            "late": DatetimeMS(LAST_DATE + 1),
            "binary": Binary(b"\0\1", 0),
            "uuid": Binary.from_uuid(uuid),
            "price": Decimal128("-12.50"),
            "thousands": Decimal128("5E3"),
            "tiny": Decimal128("1E-30"),
            "huge": Decimal128("1E+6000"),
            "no number": Decimal128("NaN"),
            "timestamp": Timestamp(3, 4),
            "regex": Regex("^a", "i"),
            "code": Code("f()"),
            "symbol": Symbol("s"),
            "undefined": Undefined(),
            "pointer": DBPointer("a.b", key),
            "least": MinKey(),
            "greatest": MaxKey(),
        }
    )
    assert shown == {
        "int": 1,
        "long": 1 << 40,
        "double": -0.5,
        "short text": "é" * 31,
        "long text": "x" * 64,
        "empty": "",
        "yes": True,
        "no": False,
        "null": None,
        "array": [1, [], {"a": [None]}],
        "document": {"b": 1, "a": {"c": 2}},
        "nothing": {},
        "key": str(key),
        "date": EPOCH + timedelta(milliseconds=1_500),
        "late": {"$date": {"$numberLong": str(LAST_DATE + 1)}},
        "binary": b"\0\1",
        "uuid": str(uuid),
        "price": Decimal("-12.50"),
        "thousands": Decimal(5000),
        "tiny": Decimal("1E-30"),
        "huge": {"$numberDecimal": "1E+6000"},
        "no number": {"$numberDecimal": "NaN"},
        "timestamp": {"$timestamp": {"t": 3, "i": 4}},
        "regex": {"$regularExpression": {"pattern": "^a", "options": "i"}},
        "code": {"$code": "f()"},
        "symbol": {"$symbol": "s"},
        "undefined": {"$undefined": True},
        "pointer": {"$dbPointer": {"$ref": "a.b", "$id": {"$oid": str(key)}}},
        "least": {"$minKey": 1},
        "greatest": {"$maxKey": 1},
    }


@pytest.mark.parametrize("fields", [255, 256, 70_000])
def test_documents_with_many_fields(fields: int) -> None:
    document = {f"field {number}": number for number in range(fields)}
    assert as_variant(document) == document
    assert as_variant({"a": list(range(fields)), "b": "x" * fields}) == {
        "a": list(range(fields)),
        "b": "x" * fields,
    }


def test_the_last_of_repeated_fields_is_used() -> None:
    repeated = rawbson.document(rawbson.body(encode({"a": 1, "b": 2})), rawbson.body(encode({"a": 3})))
    assert VariantVal(*variant(repeated)).toPython() == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\5\0\0",
        b"\6\0\0\0\0",
        b"\5\0\0\0\1",
        encode({"a": "text"})[:-3] + b"\0",
        encode({"a": "text"}).replace(b"\5\0\0\0t", b"\6\0\0\0t"),
        encode({"a": "text"}).replace(b"\5\0\0\0t", b"\0\0\0\0t"),
        encode({"a": 1, "b": [2]}).replace(b"\4b", b"\x44b"),
    ],
)
def test_damaged_documents_are_refused(damaged: bytes) -> None:
    with pytest.raises(BsonError):
        variant(damaged)


def test_generated_documents_have_the_same_names_as_variants() -> None:
    maker = DocumentMaker(random.Random(BASE_SEED))
    for _ in range(300):
        document = maker.document(depth=3)
        assert list(as_variant(document)) == sorted(document, key=str.encode)


def converted(data_type: DataType, value: Any) -> tuple[Any, bool]:
    """Return the value as this type, and whether it fits."""
    raw = documents.encode({"v": value})
    conversions = Conversions()
    kind, _, start, end = next(rawbson.elements(raw))
    found = conversions.compile(data_type, "v")(raw, kind, start, end)
    return found, not conversions.faults


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        (IntegerType(), Int64(7), 7),
        (IntegerType(), 7.0, 7),
        (ShortType(), Decimal128("7"), 7),
        (LongType(), Timestamp(1, 2), 1 << 32 | 2),
        (LongType(), DatetimeMS(5), 5),
        (DoubleType(), 7, 7.0),
        (DecimalType(10, 2), 7.5, Decimal("7.5")),
        (DecimalType(10, 2), Decimal128("7.500"), Decimal("7.500")),
        (BooleanType(), True, True),
        (StringType(), "text", "text"),
        (StringType(), 7, "7"),
        (StringType(), ObjectId("0" * 24), "0" * 24),
        (StringType(), {"a": 1}, '{"a": {"$numberInt": "1"}}'),
        (StringType(), [1], '[{"$numberInt": "1"}]'),
        (BinaryType(), Binary(b"x", 0), b"x"),
        (BinaryType(), {"a": 1}, encode({"a": 1})),
        (TimestampType(), DatetimeMS(5), 5000),
        (TimestampType(), Timestamp(1, 2), 1_000_000),
        (DateType(), DatetimeMS(-1), -1),
        (ArrayType(IntegerType()), [1, None], [1, None]),
        (MapType(StringType(), IntegerType()), {"a": 1}, [("a", 1)]),
        (StructType().add("a", IntegerType()).add("b", IntegerType()), {"b": 1, "c": 2}, {"a": None, "b": 1}),
        (IntegerType(), None, None),
    ],
)
def test_values_that_fit(data_type: DataType, value: Any, expected: Any) -> None:
    assert converted(data_type, value) == (expected, True)


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (IntegerType(), "7"),
        (IntegerType(), 7.5),
        (IntegerType(), Int64(1 << 31)),
        (IntegerType(), float("nan")),
        (ShortType(), 1 << 15),
        (DoubleType(), True),
        (DecimalType(4, 2), 100),
        (DecimalType(4, 2), Decimal128("1.234")),
        (BooleanType(), 1),
        (TimestampType(), 5),
        (TimestampType(), DatetimeMS(LAST_DATE + 1)),
        (BinaryType(), "text"),
        (ArrayType(IntegerType()), 1),
        (StructType().add("a", IntegerType()), [1]),
    ],
)
def test_values_that_do_not_fit(data_type: DataType, value: Any) -> None:
    assert converted(data_type, value) == (None, False)


def test_columns_of_each_layout() -> None:
    assert "`fullDocument` VARIANT" in RowLayout().ddl()
    assert RowLayout(output=Output.EVENT).ddl() == "`token` STRING, `clusterTime` BIGINT, `event` VARIANT"
    structs = RowLayout(document_schema="a INT", mode=FaultMode.PERMISSIVE, corrupt_column="bad").ddl()
    assert "`fullDocument` STRUCT<a INT>" in structs
    assert structs.endswith("`bad` STRING")
    with pytest.raises(UsageError, match="changelog"):
        RowLayout(output=Output.EVENT, changelog=True)


def test_named_columns_are_the_schema() -> None:
    assert RowLayout(columns=("clusterTime", "token")).ddl() == "`clusterTime` BIGINT, `token` STRING"
    with pytest.raises(
        UsageError, match=r"no column clustertime; .* some of token, operationType, clusterTime"
    ):
        RowLayout(columns=("clustertime",))
    with pytest.raises(UsageError, match=r"no column fullDocument; .* some of token, clusterTime, event$"):
        RowLayout(output=Output.EVENT, columns=("fullDocument",))
    with pytest.raises(UsageError, match="no column without a name"):
        RowLayout(columns=())
