"""Rows of the three kinds of tables, against a model that applies changes one by one."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.documents import encode
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.drift import schema_change_rows
from tailrace.lake.columns.evolve import Policy
from tailrace.lake.columns.kinds import (
    DocumentChanges,
    change_rows,
    current_rows,
    reserved_names,
    version_rows,
)
from tailrace.lake.schema import times_of

steps = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9)), max_size=12)


def changes_of(steps: list[tuple[str, int | None]], after: int = 0) -> DocumentChanges:
    return DocumentChanges(
        [key for key, _ in steps],
        [None if value is None else encode({"_id": key, "v": value}) for key, value in steps],
        [(1_700_000_000 << 32 | after + place, f"token {after + place}") for place in range(len(steps))],
        ["delete" if value is None else "update" for _, value in steps],
    )


@given(batches=st.lists(steps, max_size=4))
@settings(max_examples=50, deadline=None)
def test_the_current_state_is_the_last_change_of_each_key(
    batches: list[list[tuple[str, int | None]]],
) -> None:
    table: dict[str, Any] = {}
    model: dict[str, Any] = {}
    for batch in batches:
        changes = changes_of(batch)
        found = current_rows(changes)
        for key in found.deleted:
            table.pop(key, None)
        rows = found.own.to_pylist()
        assert [changes.documents[row] for row in found.upserted] == [row["_bson"] for row in rows]
        table.update({row["_key"]: row["_bson"] for row in rows})
        model.update(zip(changes.keys, changes.documents, strict=True))
    assert table == {key: document for key, document in model.items() if document is not None}


@given(batches=st.lists(steps, max_size=4))
@settings(max_examples=50, deadline=None)
def test_at_every_moment_one_version_is_valid(batches: list[list[tuple[str, int | None]]]) -> None:
    versions: list[dict[str, Any]] = []
    history: list[tuple[int, str, bytes | None]] = []
    for batch in batches:
        changes = changes_of(batch, after=len(history))
        found = version_rows(changes)
        for row in versions:
            if row["_is_current"] and row["_key"] in found.closed:
                row["until"], row["_is_current"] = found.closed[row["_key"]][0], False
        starts = [changes.marks[row][0] for row in found.added.tolist()]
        times = found.own.select(["_cluster_time", "_increment"]).rename_columns(
            ["cluster_time", "increment"]
        )
        assert times_of(times).tolist() == starts
        for row, start in zip(found.own.to_pylist(), starts, strict=True):
            end = row["_valid_to_increment"]
            assert (end is None) == (row["_valid_to"] is None) == row["_is_current"]
            until = None if end is None else 1_700_000_000 << 32 | end
            versions.append({**row, "from": start, "until": until})
        history += [
            (mark[0], key, document)
            for key, document, mark in zip(changes.keys, changes.documents, changes.marks, strict=True)
        ]
    for moment, _, _ in history:
        state = {key: document for time, key, document in history if time <= moment}
        valid = [row for row in versions if row["from"] <= moment and (row["until"] or 2**64) > moment]
        assert sorted((row["_key"], row["_bson"]) for row in valid) == sorted(
            (key, document) for key, document in state.items() if document is not None
        )


def test_changes_are_rows_with_their_type() -> None:
    changes = DocumentChanges(
        ["a"] * 5, [b"1", b"2", b"3", b"4", None],
        [(number << 32, str(number)) for number in range(5)],
        ["read", "insert", "update", "replace", "delete"],
    )  # fmt: skip
    rows = change_rows(changes).to_pylist()
    assert [row["_change_type"] for row in rows] == [
        "insert", "insert", "update_postimage", "update_postimage", "delete",
    ]  # fmt: skip
    assert [row["_bson"] for row in rows] == [b"1", b"2", b"3", b"4", None]


def test_fields_do_not_take_the_names_of_the_own_columns() -> None:
    document = encode({"_id": 1, "_token": "x", "_BSON": 2})
    converted = convert([document], Layout(), Policy(reserved=reserved_names("versions")))
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
