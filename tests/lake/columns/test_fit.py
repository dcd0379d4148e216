"""A schema that a user gives: what it can say, what fits, and what becomes of the rest."""

from decimal import Decimal
from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId, Regex
from bson.binary import Binary
from hypothesis import given, settings

from tailrace.bson.documents import encode
from tailrace.errors import UsageError
from tailrace.lake.columns.column_types import VARIANT_STORAGE
from tailrace.lake.columns.fit import dead_letter_columns, fit
from tailrace.lake.columns.given import parse_schema
from tests.bson.bson_strategies import documents as any_documents

ORDERS = """
    _id string not null, n int, price decimal(5,2), tags array<string>, at struct<x: int not null, y: double>
"""


def reasons(
    documents: list[dict[str, Any]], schema: str = ORDERS, **options: Any
) -> dict[int, tuple[str, str]]:
    fitted = fit([encode(document) for document in documents], parse_schema(schema), **options)
    assert sorted([*fitted.rows.tolist(), *[letter.row for letter in fitted.dead_letters]]) == [
        *range(len(documents))
    ]
    assert fitted.columns.num_rows == len(fitted.rows)
    return {letter.row: (letter.path, letter.reason) for letter in fitted.dead_letters}


def test_documents_that_fit_are_rows() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": "a", "n": 2.0, "price": Decimal128("1.50"), "tags": ["x", None], "at": {"x": 1, "y": 2}},
        {"_id": ObjectId("0123456789abcdef01234567"), "n": None, "price": Int64(7), "more": Regex("x")},
        {"_id": Binary(bytes(16), 4)},
    ]
    fitted = fit([encode(document) for document in documents], parse_schema(ORDERS))
    assert fitted.dead_letters == []
    assert fitted.columns.to_pylist() == [
        {"_id": "a", "n": 2, "price": Decimal("1.50"), "tags": ["x", None], "at": {"x": 1, "y": 2.0}},
        {"_id": "0123456789abcdef01234567", "n": None, "price": Decimal("7.00"), "tags": None, "at": None},
        {"_id": "00000000-0000-0000-0000-000000000000", "n": None, "price": None, "tags": None, "at": None},
    ]


def test_a_dead_letter_names_the_field_and_the_reason() -> None:
    found = reasons([
        {"_id": 1},
        {"_id": "x", "n": 2**40},
        {"_id": "x", "n": 1.5},
        {"_id": "x", "price": Decimal128("1.234")},
        {"_id": "x", "price": Decimal128("NaN")},
        {"_id": "x", "tags": ["x", 1]},
        {"_id": "x", "tags": "x"},
        {"_id": "x", "at": {"y": 1}},
        {"_id": "x", "at": {"x": 1, "y": "z" * 200}},
        {"n": 1},
    ])  # fmt: skip
    assert {row: path for row, (path, _) in found.items()} == {
        0: "_id", 1: "n", 2: "n", 3: "price", 4: "price", 5: "tags[]", 6: "tags", 7: "at.x", 8: "at.y",
        9: "_id",
    }  # fmt: skip
    assert found[0][1] == "the schema has string, the document has a whole number: 1"
    assert found[5][1] == "the schema has string, the document has a whole number: 1"
    assert found[9][1] == "the schema has string that is not null, the document has no value"
    assert len(found[8][1]) < 200


def test_other_fields_are_refused_on_request() -> None:
    documents: list[dict[str, Any]] = [
        {"_id": "x", "more": 1, "at": {"x": 1, "z": 2}},
        {"_id": "x", "at": {"x": 1, "z": 2}},
    ]
    assert reasons(documents) == {}
    found = reasons(documents, refuse_other_fields=True)
    assert {row: path for row, (path, _) in found.items()} == {0: "at.z", 1: "at.z"}


def test_what_is_no_bson_is_a_dead_letter() -> None:
    sound = encode({"_id": "x"})
    fitted = fit([sound, b"no BSON", sound[:-1]], parse_schema(ORDERS))
    assert fitted.rows.tolist() == [0]
    assert [letter.row for letter in fitted.dead_letters] == [1, 2]
    assert all("no BSON" in letter.reason for letter in fitted.dead_letters)


def test_dead_letters_have_columns_with_the_field_and_the_reason() -> None:
    fitted = fit([encode({"_id": 1}), encode({"_id": "a"})], parse_schema(ORDERS))
    assert dead_letter_columns(fitted.dead_letters).to_pylist() == [
        {"_path": "_id", "_reason": "the schema has string, the document has a whole number: 1"}
    ]


@given(documents=any_documents)
@settings(max_examples=30, deadline=None)
def test_anything_fits_into_json_and_variant(documents: dict[str, Any]) -> None:
    fitted = fit([encode({"v": documents, "w": documents})], parse_schema("v variant, w json"))
    assert fitted.dead_letters == []
    assert fitted.columns.schema.field("v").type == VARIANT_STORAGE
    assert fitted.columns.column("v").null_count == fitted.columns.column("w").null_count == 0


def test_the_json_of_a_schema_of_spark_is_the_same_as_its_ddl() -> None:
    text = """{"type": "struct", "fields": [
        {"name": "_id", "type": "string", "nullable": false, "metadata": {}},
        {"name": "a.b", "type": {"type": "array", "elementType": "integer", "containsNull": true},
         "nullable": true, "metadata": {}},
        {"name": "p", "type": "decimal(5,2)", "nullable": true, "metadata": {}},
        {"name": "s", "type": {"type": "struct", "fields": [
            {"name": "x", "type": "long", "nullable": true, "metadata": {}}]},
         "nullable": true, "metadata": {}}
    ]}"""
    fields = (
        "_id: STRING NOT NULL COMMENT 'key, <first>', `a.b`: array<int>, p decimal(5, 2), s struct<x bigint>"
    )
    assert parse_schema(text) == parse_schema(f"STRUCT<{fields}>")
    assert (
        parse_schema(fields).ddl()
        == "struct<`_id`: string, `a_b`: array<int>, `p`: decimal(5,2), `s`: struct<`x`: bigint>>"
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("", "has no fields"),
        ("a map<string, int>", "the type 'map'"),
        ("a int, a string", "names the field 'a' twice"),
        ("a array<int", "ends too early"),
        ("a int b string", "not a comma"),
        ("a decimal(39,2)", r"decimal\(39,2\) is no type"),
        ("a int not", "ends too early"),
        ("{}", "not the JSON of a Spark schema"),
        ("struct<a: int> x", "does not end before 'x'"),
        ("a <", "the type '<'"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused(schema: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_schema(schema)
