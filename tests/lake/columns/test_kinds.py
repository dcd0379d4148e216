"""Rows of the three kinds of tables, against a model that applies changes one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.documents import decode, encode
from tailrace.errors import UsageError
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.drift import schema_change_rows
from tailrace.lake.columns.evolve import Policy
from tailrace.lake.columns.kinds import (
    DocumentChanges,
    TableKind,
    kind_named,
    replaced_rows,
    reserved_names,
    rows_of,
)

Steps = list[tuple[bytes, int | None]]
steps = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.none() | st.integers(0, 9)), max_size=12)


def changes_of(steps: Steps, after: int = 0) -> DocumentChanges:
    return DocumentChanges(
        [key for key, _ in steps],
        [encode({"_id": key} if value is None else {"_id": key, "v": value}) for key, value in steps],
        [(1_700_000_000 << 32 | after + place, f"token {after + place}") for place in range(len(steps))],
        ["delete" if value is None else "update" for _, value in steps],
    )


class Table:
    """The rows of a kind, live ones by key."""

    def __init__(self, kind: TableKind) -> None:
        self.kind = kind
        self.live: dict[bytes, pa.Table] = {}
        self.past: list[dict[str, Any]] = []

    def apply(self, changes: DocumentChanges) -> None:
        found = rows_of(self.kind, changes)
        for key, mark in found.first.items():
            if key in self.live:
                self.past += replaced_rows(self.kind, self.live.pop(key), [mark]).to_pylist()
        self.past += found.own.take(pa.array(found.past)).to_pylist()
        for place in found.live.tolist():
            self.live[changes.keys[place]] = pa.Table.from_batches([found.own.slice(place, 1)])

    @property
    def live_rows(self) -> list[dict[str, Any]]:
        return [row for _, table in sorted(self.live.items()) for row in table.to_pylist()]


def batches_of(batches: list[Steps]) -> list[DocumentChanges]:
    starts = [sum(map(len, batches[:place])) for place in range(len(batches))]
    return [changes_of(batch, start) for batch, start in zip(batches, starts, strict=True)]


def state_at(batches: list[Steps], count: int) -> list[tuple[bytes, int]]:
    """Keys and values after that many changes."""
    state = dict([step for batch in batches for step in batch][:count])
    return sorted((key, value) for key, value in state.items() if value is not None)


def shown(rows: list[dict[str, Any]]) -> list[tuple[bytes, int]]:
    return sorted((row["_key"], decode(row["_bson"])["v"]) for row in rows)


@given(batches=st.lists(steps, max_size=4), kind=st.sampled_from(list(TableKind)))
@settings(max_examples=50, deadline=None)
def test_live_rows_are_the_last_change_of_each_key(batches: list[Steps], kind: TableKind) -> None:
    table = Table(kind)
    for changes in batches_of(batches):
        table.apply(changes)
    assert shown(table.live_rows) == state_at(batches, 48)
    assert kind.has_past or not table.past


@given(batches=st.lists(steps, max_size=4))
@settings(max_examples=50, deadline=None)
def test_at_every_moment_one_version_is_valid(batches: list[Steps]) -> None:
    table = Table(TableKind.VERSIONS)
    for changes in batches_of(batches):
        table.apply(changes)
    assert all(row["_is_current"] and row["_valid_to"] is None for row in table.live_rows)
    assert not any(row["_is_current"] or row["_valid_to"] is None for row in table.past)
    for moment in range(sum(map(len, batches))):
        valid = [
            row
            for row in [*table.live_rows, *table.past]
            if row["_increment"] <= moment and (row["_is_current"] or row["_valid_to_increment"] > moment)
        ]
        assert shown(valid) == state_at(batches, moment + 1)


@given(batches=st.lists(steps, max_size=4))
@settings(max_examples=50, deadline=None)
def test_every_change_is_a_row_of_changes(batches: list[Steps]) -> None:
    table = Table(TableKind.CHANGES)
    for changes in batches_of(batches):
        table.apply(changes)
    rows = sorted([*table.live_rows, *table.past], key=lambda row: int(row["_increment"]))
    found = [(row["_key"], row["_token"], row["_change_type"]) for row in rows]
    assert found == [
        (key, f"token {place}", "delete" if value is None else "update_postimage")
        for place, (key, value) in enumerate(step for batch in batches for step in batch)
    ]


def test_changes_have_the_types_of_a_change_data_feed() -> None:
    operations = ["read", "insert", "update", "replace", "delete"]
    changes = DocumentChanges([b"a"] * 5, [b"x"] * 5, [(number << 32, "") for number in range(5)], operations)
    assert changes.own_columns(TableKind.CHANGES).column("_change_type").to_pylist() == [
        "insert", "insert", "update_postimage", "update_postimage", "delete",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no table is of the kind 'all': use current, versions, changes"):
        kind_named("all")


def test_fields_do_not_take_the_names_of_the_own_columns() -> None:
    document = encode({"_id": 1, "_token": "x", "_BSON": 2})
    converted = convert([document], Layout(), Policy(reserved=reserved_names(TableKind.VERSIONS)))
    assert converted.columns.schema.names == ["_id", "_token__2", "_BSON__2"]
    assert [field.name for field in converted.layout.root.fields] == ["_id", "_token", "_BSON"]


def test_schema_drift_is_rows_that_name_the_event() -> None:
    documents = [encode({"n": 1}), encode({"n": "x", "s": {"a": 1}}), encode({"s": {"a": True}})]
    marks = [(1_700_000_000 << 32 | number, f"token {number}") for number in (1, 2, 3)]
    converted = convert(documents[:1], Layout(), marks=marks[:1])
    later = convert(documents[1:], converted.layout, marks=marks[1:])
    rows = schema_change_rows("shop.orders", [*converted.changes, *later.changes]).to_pylist()
    shown = ("path", "column", "what", "old_type", "new_type", "token")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("n", "n", "field added", None, "bigint", "token 1"),
        ("n", "n__string", "type added", "bigint", "string", "token 2"),
        ("s", "s", "field added", None, "struct<`a`: bigint, `a__boolean`: boolean>", "token 2"),
    ]  # fmt: skip
    assert {row["ns"] for row in rows} == {"shop.orders"}
    again = convert([encode({"s": {"a": 1, "b": [{"c": 1}]}})], later.layout, marks=[(4 << 32, "token 4")])
    (change,) = again.changes
    assert (change.path, change.column, change.new_type) == ("s.b", "s.b", "array<struct<`c`: bigint>>")
    assert isinstance(again.columns, pa.RecordBatch)
