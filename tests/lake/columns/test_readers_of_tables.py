"""Tables whose columns were added batch by batch, read by deltalake, Polars and DuckDB."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from bson import Decimal128, Int64, ObjectId, Timestamp
from deltalake import DeltaTable, write_deltalake

from tailrace.bson.documents import encode
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.evolve import Policy

ID = ObjectId("0123456789abcdef01234567")
BATCHES: list[list[dict[str, Any]]] = [
    [{"_id": ID, "n": 1, "price": Decimal128("1.50"), "place": {"city": "Berlin"}, "lines": [{"sku": "a"}]}],
    [
        {
            "_id": Int64(5),
            "n": "many",
            "price": 2,
            "place": {"zip": [10115]},
            "lines": [{"sku": "b", "qty": 2.5}],
        }
    ],
    [
        {
            "_id": "x",
            "n": 2.5,
            "when": datetime(2026, 1, 2, tzinfo=UTC),
            "place": "home",
            "ts": Timestamp(7, 1),
        }
    ],
]


def write(path: Path, conflicts: str) -> Layout:
    """One commit a batch, as a mirror does; the layout goes from batch to batch as text."""
    layout = Layout()
    for batch in BATCHES:
        converted = convert([encode(document) for document in batch], layout, Policy(conflicts))
        rows = pa.Table.from_batches([converted.columns])
        write_deltalake(path, rows, mode="append", schema_mode="merge")
        layout = Layout.from_json(converted.layout.to_json())
    return layout


def duck(path: Path, query: str) -> list[Any]:
    files = DeltaTable(path).file_uris()
    with duckdb.connect() as connection:
        found = connection.execute(
            query.replace("FROM t", "FROM read_parquet(?, union_by_name=true)"), [files]
        )
        return found.fetchall()


def test_every_reader_sees_the_same_columns(tmp_path: Path) -> None:
    layout = write(tmp_path, "branches")
    names = layout.arrow_schema().names
    assert names == [
        "_id", "_id__long", "_id__string", "n", "n__string", "n__double", "price", "place", "place__string",
        "lines",
        "when", "ts__json",
    ]  # fmt: skip
    table = DeltaTable(tmp_path)
    rows = {
        row["n"] or row["n__string"] or row["n__double"]: row for row in table.to_pyarrow_table().to_pylist()
    }
    assert (rows[1]["_id"], rows["many"]["_id__long"], rows[2.5]["_id__string"]) == (str(ID), 5, "x")
    frame = polars.scan_delta(str(tmp_path)).collect()
    assert sorted(frame.columns) == sorted(names)
    priced = frame.filter(polars.col("price") > 1).sort("price")
    assert priced["price"].to_list() == [Decimal("1.5"), Decimal(2)]
    assert frame["place"].struct.field("city").drop_nulls().to_list() == ["Berlin"]
    assert frame["lines"].explode().struct.field("qty").drop_nulls().to_list() == [2.5]
    assert duck(tmp_path, "SELECT sum(price), max(place.zip[1]), max(lines[1].qty) FROM t") == [
        (Decimal("3.5"), 10115, 2.5)
    ]


def test_the_values_of_a_field_of_several_types_are_found_by_a_query(tmp_path: Path) -> None:
    write(tmp_path / "branches", "branches")
    write(tmp_path / "json", "json")
    query = "SELECT coalesce(n::varchar, n__string, n__double::varchar) FROM t ORDER BY 1"
    assert duck(tmp_path / "branches", query) == [("1",), ("2.5",), ("many",)]
    query = "SELECT coalesce(n::varchar, n__json->>'$') FROM t ORDER BY 1"
    assert duck(tmp_path / "json", query) == [("1",), ("2.5",), ("many",)]
    query = """SELECT (ts__json->>'$."$timestamp".t')::int FROM t WHERE ts__json IS NOT NULL"""
    assert duck(tmp_path / "json", query) == [(7,)]


def test_a_file_from_before_a_column_reads_as_null(tmp_path: Path) -> None:
    write(tmp_path, "branches")
    frame = polars.scan_delta(str(tmp_path)).select("n", "when").collect()
    assert sorted(frame.rows(), key=str) == [
        (1, None),
        (None, None),
        (None, datetime(2026, 1, 2, tzinfo=UTC)),
    ]


def test_delta_does_not_change_the_type_of_a_column(tmp_path: Path) -> None:
    """The reason why a value of another type gets a column of its own."""
    write_deltalake(tmp_path, pa.table({"n": [1]}))
    with pytest.raises(Exception, match=r"(?i)cast|schema|type|merge"):
        write_deltalake(tmp_path, pa.table({"n": ["text"]}), mode="append", schema_mode="merge")
    write_deltalake(tmp_path, pa.table({"n": [2.5]}), mode="append", schema_mode="merge")
    assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["n"].to_pylist()) == [1, 2]


def test_variant_columns_are_readable_as_their_two_parts(tmp_path: Path) -> None:
    """Without the type of Delta, VARIANT is a struct to every reader."""
    write(tmp_path, "variant")
    found = polars.scan_delta(str(tmp_path)).select("n__variant").collect()["n__variant"].drop_nulls()
    assert sorted(found.struct.field("value").to_list()) == sorted(
        [b"\x11many", b"\x1c" + b"\0" * 6 + b"\x04@"]
    )
    rows = duck(tmp_path, "SELECT typeof(n__variant) FROM t LIMIT 1")
    assert json.dumps(rows) == json.dumps([['STRUCT(metadata BLOB, "value" BLOB)']])
