"""Documents of every BSON type become columns, and nothing is lost on the way."""

from random import Random
from typing import Any

import pytest
from bson import Regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.errors import BsonError
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert, infer
from tailrace.lake.columns.decoded import bson_to_columns, bson_to_json, bson_to_variant
from tailrace.lake.columns.evolve import CONFLICTS, Policy, evolve
from tailrace.lake.columns.fit import fit
from tailrace.lake.columns.given import parse_schema
from tailrace.lake.columns.json_text import json_text
from tailrace.lake.columns.shape import FieldsShape
from tailrace.lake.columns.variant import variant_of
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
@settings(max_examples=15, deadline=None)
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


@given(
    kinds=st.lists(conflicting | any_documents, min_size=1, max_size=3),
    seed=st.randoms(use_true_random=False),
)
@settings(max_examples=20, deadline=None)
def test_documents_that_are_read_together_have_the_columns_of_those_read_one_by_one(
    kinds: list[dict[str, Any]], seed: Any
) -> None:
    documents = [encode(document) for document in kinds * 16]
    seed.shuffle(documents)
    together = convert(documents + documents, Layout())
    assert document_of(together.columns.to_pylist()[0], together.layout) == expected(decode(documents[0]))
    single = [convert([document], together.layout).columns for document in documents[:3]]
    assert together.columns.to_pylist()[:3] == [batch.to_pylist()[0] for batch in single]
    texts = bson_to_json(documents).to_pylist()
    assert texts == [json_text(document) for document in documents]
    variants = bson_to_variant([None, *documents]).to_pylist()
    assert variants[0] is None
    for document, variant in zip(documents, variants[1:], strict=True):
        assert (variant["value"], variant["metadata"]) == variant_of(
            document, rawbson.DOCUMENT, 0, len(document)
        )
    assert bson_to_columns([None, *documents]).to_pylist()[1:] == [
        *convert(documents, Layout()).columns.to_pylist()
    ]


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("damage", ["cut off", "longer", "no end", "type"])
def test_a_damaged_document_is_an_error(count: int, damage: str) -> None:
    sound = encode({"a": "text", "b": {"c": [1, 2.5]}, "d": 1})
    damaged = {
        "cut off": sound[:-2],
        "longer": sound + b"\0",
        "no end": sound[:-1] + b"\1",
        "type": sound[:4] + b"\x77" + sound[5:],
    }[damage]
    for function in (lambda documents: convert(documents, Layout()), bson_to_json, bson_to_columns):
        with pytest.raises(BsonError):
            function([sound] * count + [damaged] + [sound] * count)


def test_text_that_is_no_utf8_is_stored_as_bytes() -> None:
    damaged = rawbson.document(rawbson.string(b"a", b"\xff\xfe"), rawbson.string(b"\xff", b"x"))
    for count in (1, 40):
        converted = convert([encode({"a": "x"})] * count + [damaged] * count, Layout())
        assert converted.columns.to_pylist()[-1] == {"a": None, "a__binary": b"\xff\xfe", "\\xff": "x"}
    assert bson_to_json([damaged]).to_pylist() == ['{"a": "\\\\xff\\\\xfe", "\\\\xff": "x"}']


def test_a_map_of_many_keys_does_not_become_many_columns() -> None:
    documents = [encode({"_id": number, "by_user": {f"user {number}": number}}) for number in range(1000)]
    converted = convert(documents, Layout(), Policy(max_fields=100))
    inner = converted.columns.schema.field("by_user").type
    assert inner.num_fields == 101
    rows = converted.columns.column("by_user").to_pylist()
    assert rows[7]["user_7"] == 7
    assert rows[700]["__rest"] == '{"user 700": 700}'
    assert [change.what for change in converted.changes] == ["field added", "field added"]


def test_deep_documents_are_json() -> None:
    document: dict[str, Any] = {"end": 1}
    for _ in range(60):
        document = {"a": document}
    converted = convert([encode(document)], Layout())
    assert "`a__json`: string" in converted.layout.ddl()
    assert document_of(converted.columns.to_pylist()[0], converted.layout) == expected(document)


def test_a_long_array_beside_short_ones() -> None:
    long = encode({"a": [*range(5000), *[{"b": "x"}] * 3], "c": 1})
    converted = convert([encode({"a": [1, 2]})] * 30 + [long], Layout())
    assert converted.columns.column("a__json").null_count == 30
    numbers = convert([encode({"a": [1]})] * 30 + [encode({"a": [*range(5000)]})], Layout())
    assert numbers.columns.column("a")[30].as_py() == [*range(5000)]


def loose_documents(seed: int, count: int) -> list[dict[str, Any]]:
    """Documents with some of many fields each, in any order; names are short, long, and alike."""
    random = Random(seed)
    names = [f"{'field' * (number % 5)}{number}" for number in range(30)]
    values: list[Any] = [1, 2.5, "text", True, None, [1, "x"], {"a": [{"b": 1}]}, Regex("a", "i"), b"bytes"]
    return [{name: random.choice(values) for name in random.sample(names, 8)} for _ in range(count)]


def test_documents_with_many_different_fields() -> None:
    documents = loose_documents(seed=20261118, count=300)
    converted = convert([encode(document) for document in documents], Layout())
    for document, row in zip(documents, converted.columns.to_pylist(), strict=True):
        assert document_of(row, converted.layout) == expected(document)


@pytest.mark.parametrize(
    ("seed", "rounds"), [(20261118, 8), pytest.param(20261119, 200, marks=pytest.mark.slow)]
)
def test_damage_anywhere_is_an_error_or_another_document(seed: int, rounds: int) -> None:
    random = Random(seed)
    sound = [encode(document) for document in loose_documents(seed, count=40)]
    refused = 0
    for _ in range(rounds):
        documents = [*sound]
        place = random.randrange(len(documents))
        damaged = bytearray(documents[place])
        damaged[random.randrange(len(damaged))] = random.randrange(256)
        documents[place] = bytes(damaged)
        try:
            assert convert(documents, Layout()).columns.num_rows == len(documents)
            bson_to_json(documents)
        except BsonError:
            refused += 1
        fitted = fit(documents, parse_schema("field1 json"))
        assert len(fitted.rows) + len(fitted.dead_letters) == len(documents)
    assert refused
