"""Shard keys: valid patterns, and the keys of documents."""

import random
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, MinKey, ObjectId

from tailrace.bson.compare import sort_key
from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.query.expressions.conversion.hashed_index import hashed_index_key
from tests.support.documents import DocumentMaker

Document = dict[str, Any]


def key_of(pattern: Document, document: Document) -> bytes:
    return ShardKey(pattern).key_of(encode(document))


@pytest.mark.parametrize(
    "pattern",
    [
        {},
        {"a": -1},
        {"a": 0},
        {"a": 2},
        {"a": True},
        {"a": "text"},
        {"a": None},
        {"": 1},
        {"a.": 1},
        {"a..b": 1},
        {"$a": 1},
        {"a.$b": 1},
        {"a": "hashed", "b": "hashed"},
        {"a": 1, "a.b": 1},
        {f"f{number}": 1 for number in range(33)},
    ],
)
def test_invalid_patterns(pattern: Document) -> None:
    with pytest.raises(CommandError) as caught:
        ShardKey(pattern)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    "pattern",
    [{"a": 1}, {"a": 1.0}, {"a": Int64(1)}, {"a": Decimal128("1")}, {"a.b": 1, "c": "hashed", "d": 1}],
)
def test_patterns_are_stored_unchanged(pattern: Document) -> None:
    key = ShardKey(pattern)
    assert key.pattern == pattern
    assert key == ShardKey({path: "hashed" if kind == "hashed" else 1 for path, kind in pattern.items()})


def test_missing_fields_are_null() -> None:
    pattern = {"a.b": 1, "c": 1}
    whole = key_of(pattern, {"a": {"b": None}, "c": None})
    documents: list[Document] = [{}, {"a": 5}, {"a": {}}, {"a": {"x": 1}}, {"c": None}]
    for document in documents:
        assert key_of(pattern, document) == whole
    assert key_of(pattern, {"a.b": 7}) == whole


@pytest.mark.parametrize("document", [{"a": []}, {"a": [1]}, {"a": [{"b": 1}]}, {"a": {"b": [1]}}])
def test_arrays_are_refused(document: Document) -> None:
    with pytest.raises(CommandError) as caught:
        key_of({"a.b": 1}, document)
    assert caught.value.code_name == "ShardKeyNotFound"


def test_equal_numbers_have_equal_keys() -> None:
    for pattern in ({"a": 1}, {"a": "hashed"}):
        expected = key_of(pattern, {"a": 7})
        for value in (7.0, Int64(7), Decimal128("7.00")):
            assert key_of(pattern, {"a": value}) == expected


def test_a_hashed_field_is_replaced_by_its_hash() -> None:
    """The expected value is the one that MongoDB's shell returns for 1."""
    key = ShardKey({"a": 1, "b": "hashed"})
    expected = key.bound({"a": "x", "b": Int64(5902408780260971510)})
    assert key.key_of(encode({"a": "x", "b": 1})) == expected
    assert key.hashed({"a": "x", "b": 1}) == {"a": "x", "b": 5902408780260971510}


@pytest.mark.parametrize("seed", range(10))
def test_any_value_has_the_hash_that_the_index_stores(seed: int) -> None:
    make = DocumentMaker(random.Random(seed))
    key = ShardKey({"a.b": "hashed"})
    for value in (make.value() for _ in range(50)):
        if not isinstance(value, list):
            expected = key.bound({"a.b": hashed_index_key(value)})
            assert key.key_of(encode({"a": {"b": value}})) == expected, (seed, value)


@pytest.mark.parametrize("seed", range(20))
def test_keys_sort_like_their_values(seed: int) -> None:
    rng = random.Random(seed)
    make = DocumentMaker(rng)
    key = ShardKey({"a": 1, "b.c": 1})
    documents = [{"a": make.key_scalar(), "b": {"c": make.key_scalar()}} for _ in range(30)]
    by_key = sorted(documents, key=lambda document: key.key_of(encode(document)))
    order = [(sort_key(document["a"]), sort_key(document["b"]["c"])) for document in by_key]
    assert order == sorted(order), seed


def test_every_key_is_between_the_ends() -> None:
    key = ShardKey({"a": 1, "b": 1})
    least, greatest = key.bound(key.least), key.bound(key.greatest)
    for value in (None, -1e308, "", "x", ObjectId(), True, {"x": 1}, MinKey(), MaxKey()):
        assert least <= key.key_of(encode({"a": value, "b": value})) <= greatest


def test_a_bound_may_have_the_first_fields_only() -> None:
    key = ShardKey({"a": 1, "b": 1})
    assert key.full_bound({"a": 5}) == {"a": 5, "b": MinKey()}
    assert key.bound({"a": 5}) < key.key_of(encode({"a": 5, "b": None})) < key.bound({"a": 6})
    for wrong in ({}, {"b": 1}, {"b": 1, "a": 1}, {"a": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}):
        with pytest.raises(CommandError) as caught:
            key.bound(wrong)
        assert caught.value.code == 2
    with pytest.raises(CommandError):
        key.check_bound({"a": 5}, whole=True)


def test_a_supporting_index_begins_with_the_key() -> None:
    key = ShardKey({"a": 1, "b": "hashed"})
    assert key.is_prefix_of({"a": 1.0, "b": "hashed"})
    assert key.is_prefix_of({"a": 1, "b": "hashed", "c": -1})
    for pattern in ({"a": 1}, {"a": 1, "b": 1}, {"b": "hashed", "a": 1}, {"a": -1, "b": "hashed"}):
        assert not key.is_prefix_of(pattern)
