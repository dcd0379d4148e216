"""The history is an ordinary table: Polars and DuckDB read it without code of Tailrace."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import duckdb
import polars
import pytest
from deltalake import DeltaTable

from tailrace.events.change_event import ChangeEvent
from tailrace.lake.compaction import compact
from tailrace.lake.deferred_entries import is_deferred
from tailrace.lake.log_writer import make_checkpoint
from tailrace.lake.schema import SCHEMA
from tests.lake.stored import canonical_events, fill, new_table
from tests.support.workload import generate

OPTIONS: bson.CodecOptions[dict[str, Any]] = bson.CodecOptions(tz_aware=True)


@pytest.fixture(scope="module")
def events() -> list[ChangeEvent]:
    return canonical_events(generate(20260900, operations=120), "shard0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, events: list[ChangeEvent]) -> Path:
    path = tmp_path_factory.mktemp("history")
    table = new_table(path)
    fill(table, events, pieces=9)
    assert compact(table, min_files=2, target_bytes=table.size // 2) > 0
    assert len(table.files) > 1
    # From now on everything is in the checkpoint.
    make_checkpoint(table)
    for commit in (path / "_delta_log").glob("*.json"):
        commit.unlink()
    return path


def operations(events: list[ChangeEvent]) -> dict[str | None, int]:
    counts: dict[str | None, int] = {}
    for event in events:
        name = None if is_deferred(event) else event.operation_type
        counts[name] = counts.get(name, 0) + 1
    return counts


def test_polars(folder: Path, events: list[ChangeEvent]) -> None:
    frame = polars.scan_delta(str(folder)).sort("token").collect()
    assert frame.columns == SCHEMA.names
    times = zip(frame["cluster_time"].to_list(), frame["increment"].to_list(), strict=True)
    assert [int(moment.timestamp()) << 32 | increment for moment, increment in times] == [
        event.entry.ts for event in events
    ]
    counted = frame.group_by("operation").len()
    assert dict(zip(counted["operation"], counted["len"], strict=True)) == operations(events)
    inserted = frame.filter(polars.col("operation") == "insert").row(0, named=True)
    event = bson.decode(inserted["event"], OPTIONS)
    assert "_id" not in event
    assert (event["ns"]["db"], event["ns"]["coll"]) == (inserted["db"], inserted["coll"])
    assert str(event["collectionUUID"].as_uuid()) == inserted["uuid"]
    assert json.loads(inserted["document_key"]).keys() == event["documentKey"].keys()
    assert inserted["wall_time"] == event["wallTime"]


def test_deltalake_finds_rows_by_every_column(folder: Path, events: list[ChangeEvent]) -> None:
    table = DeltaTable(str(folder))
    whole = table.to_pyarrow_table()
    for name in SCHEMA.names:
        column = whole.column(name).drop_null()
        if not len(column):
            continue
        value = column[0].as_py()
        found = table.to_pyarrow_table(filters=[(name, "=", value)])
        assert found.num_rows == column.to_pylist().count(value), name


def test_duckdb(folder: Path, events: list[ChangeEvent]) -> None:
    files = DeltaTable(str(folder)).file_uris()
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT operation, count(*) FROM read_parquet(?) GROUP BY 1", [files]
        ).fetchall()
        assert dict(rows) == operations(events)
        shards = connection.execute("SELECT DISTINCT shard FROM read_parquet(?)", [files]).fetchall()
        assert shards == [("shard0",)]


def test_a_filter_by_time_reads_few_files(folder: Path, events: list[ChangeEvent]) -> None:
    table = DeltaTable(str(folder))
    seconds = events[-1].entry.ts >> 32
    last = datetime.fromtimestamp(seconds, UTC)
    predicate = f"cluster_time >= '{last.isoformat()}'"
    assert len(table.file_uris(file_pruning_predicate=predicate)) == 1 < len(table.file_uris())
    found = table.to_pyarrow_table(filters=[("cluster_time", ">=", last)], columns=["cluster_time"])
    assert found.num_rows == sum(event.entry.ts >> 32 == seconds for event in events)
