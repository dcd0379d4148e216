"""Documents of every BSON type become columns, and nothing is lost on the way."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert, infer
from tailrace.lake.columns.evolve import CONFLICTS, Policy, evolve
from tailrace.lake.columns.shape import FieldsShape
from tests.bson.bson_strategies import documents as any_documents
from tests.bson.bson_strategies import values
from tests.lake.columns.reading_back import document_of, expected

# Few names, so that fields meet values of other types; some are no names of columns.
FIELDS = st.sampled_from(["_id", "a", "A", "a.b", "a_b", "", "$x", "a__json", "a__long", "größe", "a b"])
conflicting = st.recursive(
    st.dictionaries(FIELDS, values, max_size=5),
    lambda inner: st.dictionaries(FIELDS, inner | st.lists(inner, max_size=3), max_size=3),
    max_leaves=4,
)
batches = st.lists(conflicting | any_documents, max_size=8)


def rows_of(documents: list[dict[str, Any]], layout: Layout, policy: Policy) -> tuple[list[Any], Layout]:
    converted = convert([encode(document) for document in documents], layout, policy)
    assert converted.columns.num_rows == len(documents)
    assert converted.columns.schema.equals(converted.layout.arrow_schema(), check_metadata=True)
    converted.columns.validate(full=True)
    return converted.columns.to_pylist(), converted.layout


@pytest.mark.parametrize("policy", [Policy("branches"), Policy("json"), Policy("branches", max_fields=2)])
@given(batches=st.lists(batches, max_size=3))
@settings(max_examples=25, deadline=None)
def test_every_value_is_in_one_column_and_nothing_is_null_that_was_not(
    batches: list[list[dict[str, Any]]], policy: Policy
) -> None:
    layout = Layout()
    for batch in batches:
        rows, after = rows_of(batch, layout, policy)
        for document, row in zip(batch, rows, strict=True):
            assert document_of(row, after) == expected(decode(encode(document)))
        assert Layout.from_json(after.to_json()) == after
        layout = after


@given(batch=batches, conflicts=st.sampled_from(CONFLICTS))
@settings(max_examples=20, deadline=None)
def test_columns_are_only_added(batch: list[dict[str, Any]], conflicts: str) -> None:
    layout = Layout()
    policy = Policy(conflicts)
    for document in batch:
        before = {branch.column: branch.type.name for branch in layout.root.columns()}
        converted = convert([encode(document)], layout, policy)
        layout = converted.layout
        after = {branch.column: branch.type.name for branch in layout.root.columns()}
        assert before.items() <= after.items()
        added = {change.column.partition(".")[0] for change in converted.changes if "." not in change.column}
        assert after.keys() - before.keys() == added
        again = convert([encode(document)], layout, policy)
        assert (again.layout, again.changes) == (layout, [])
        lower = [name.lower() for name in after]
        assert len(set(lower)) == len(lower)


@given(batch=batches, seed=st.randoms(use_true_random=False), conflicts=st.sampled_from(CONFLICTS))
@settings(max_examples=20, deadline=None)
def test_tasks_that_infer_in_any_order_agree_on_the_columns(
    batch: list[dict[str, Any]], seed: Any, conflicts: str
) -> None:
    """Shapes of single documents, merged in any order, give the columns of all documents together."""
    marks = [(row, "token") for row in range(len(batch))]
    whole = infer([encode(document) for document in batch], marks)
    parts = [infer([encode(document)], [mark]) for document, mark in zip(batch, marks, strict=True)]
    seed.shuffle(parts)
    merged = FieldsShape()
    for part in parts:
        merged.merge(FieldsShape.from_json(part.to_json()))
    layout, changes = evolve(Layout(), whole, Policy(conflicts))
    other, same = evolve(Layout(), merged, Policy(conflicts))
    assert other == layout
    assert same == changes


def test_of_fields_with_the_same_name_the_last_one_counts() -> None:
    twice = rawbson.document(
        rawbson.element(rawbson.INT32, b"a", bytes(4)),
        rawbson.string(b"a", b"x"),
        rawbson.element(rawbson.ARRAY, b"b", rawbson.document(
            rawbson.element(rawbson.DOCUMENT, b"0", rawbson.document(
                rawbson.element(rawbson.BOOL, b"c", b"\0"), rawbson.element(rawbson.BOOL, b"c", b"\1"),
            )),
        )),
    )  # fmt: skip
    converted = convert([twice], Layout())
    assert converted.columns.to_pylist() == [{"a": "x", "b": [{"c": True}]}]
