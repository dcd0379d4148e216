"""Index keys of documents: their number and their order."""

import random
from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId

from tailrace.bson.compare import sort_key
from tailrace.bson.documents import encode
from tailrace.bson.values import Undefined
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Index
from tailrace.mongod.store.indexes.collation_keys import collation_key
from tailrace.mongod.store.indexes.index_keys import index_keys, index_values
from tailrace.query.collation import Collation
from tests.support.documents import DocumentMaker

Document = dict[str, Any]


def index(key: Document, **options: Any) -> Index:
    return Index(20, {"v": 2, "key": key, "name": "x", **options})


def keys(key: Document, document: Document, **options: Any) -> list[bytes]:
    return index_keys(index(key, **options), encode(document))


def values(key: Document, document: Document, **options: Any) -> list[list[Any]]:
    return [found for _, found in index_values(index(key, **options), encode(document))]


def test_equal_values_have_equal_keys() -> None:
    expected = keys({"a": 1}, {"a": 1})
    for value in (1.0, Int64(1), Decimal128("1.00")):
        assert keys({"a": 1}, {"a": value}) == expected
    assert keys({"a": 1}, {}) == keys({"a": 1}, {"a": None}) != keys({"a": 1}, {"a": Undefined()})


def test_the_order_of_fields_in_a_document_makes_no_difference() -> None:
    one = keys({"a": 1, "b": 1}, {"a": 1, "x": [], "b": 2})
    assert one == keys({"a": 1, "b": 1}, {"b": 2, "a": 1})


@pytest.mark.parametrize("path", ["a", "a.b"])
def test_ascending_and_descending_order(path: str) -> None:
    """Keys of top-level fields and keys of paths sort in BSON order."""
    samples = [None, -5, 0, 1, 1.5, 2**40, "", "a", "ab", "b", {}, {"x": 1}, b"", ObjectId(), False, True]
    documents = [{"a": value} if path == "a" else {"a": {"b": value}} for value in samples]
    up = sorted(range(len(samples)), key=lambda n: keys({path: 1}, documents[n]))
    down = sorted(range(len(samples)), key=lambda n: keys({path: -1}, documents[n]))
    expected = sorted(range(len(samples)), key=lambda n: sort_key(samples[n]))
    assert up == expected
    assert down == expected[::-1]


@pytest.mark.parametrize("seed", range(20))
def test_compound_order_of_random_values(seed: int) -> None:
    rng = random.Random(seed)
    maker = DocumentMaker(rng)
    documents = [{"a": maker.value(), "b": rng.randrange(3)} for _ in range(60)]
    documents = [document for document in documents if not isinstance(document["a"], list)]
    listed = sorted(documents, key=lambda document: keys({"b": -1, "a": 1}, document))
    by_value = sorted(documents, key=lambda document: (-document["b"], sort_key(document["a"])))
    assert [(d["b"], sort_key(d["a"])) for d in listed] == [(d["b"], sort_key(d["a"])) for d in by_value], (
        seed
    )


@pytest.mark.parametrize(
    ("paths", "document", "expected"),
    [
        (["a"], {"a": [3, 1, 3]}, [[3], [1], [3]]),
        (["a"], {"a": []}, [[Undefined()]]),
        (["a"], {"a": [[1, 2], 3]}, [[[1, 2]], [3]]),
        (["a.b"], {"a": []}, [[None]]),
        (["a.b"], {"a": [1, {"b": 2}, {}]}, [[None], [2], [None]]),
        (["a.b"], {"a": [{"b": [1, 2]}, {"b": 3}]}, [[1], [2], [3]]),
        (["a.b"], {"a": 5}, [[None]]),
        (["a.b", "a.c"], {"a": [{"b": 1, "c": 2}, {"b": 3}]}, [[1, 2], [3, None]]),
        (["a", "a.b"], {"a": [{"b": 1}, 2]}, [[{"b": 1}, 1], [2, None]]),
        (["a", "b"], {"a": [1, 2], "b": 5}, [[1, 5], [2, 5]]),
        (["a.0"], {"a": [7, 8]}, [[7]]),
        (["a.1.b"], {"a": [0, {"b": 9}]}, [[9]]),
        (["a.5"], {"a": [7, 8]}, [[None], [None]]),
        (["a.0"], {"a": {"0": 4}}, [[4]]),
    ],
)
def test_keys_of_arrays(paths: list[str], document: Document, expected: list[list[Any]]) -> None:
    found = values(dict.fromkeys(paths, 1), document)
    assert [[None if repr(v) == "MISSING" else v for v in row] for row in found] == expected
    assert len(keys(dict.fromkeys(paths, 1), document)) == len({repr(row) for row in expected})


def test_keys_are_sorted_without_repetition() -> None:
    found = keys({"a": 1}, {"a": [5, "x", 1, 5, None]})
    assert found == sorted(set(found))
    assert len(found) == 4


@pytest.mark.parametrize(
    ("key", "document", "code"),
    [
        ({"a": 1, "b": 1}, {"a": [1], "b": [2]}, 171),
        ({"a.b": 1, "a.c": 1}, {"a": [{"b": [1], "c": [2]}]}, 171),
        ({"a.0": 1}, {"a": [{"0": 1}]}, 16746),
        ({"a": "hashed"}, {"a": [1]}, 16766),
        ({"a.b": "hashed"}, {"a": [{"b": 1}]}, 16766),
    ],
)
def test_documents_that_cannot_be_indexed(key: Document, document: Document, code: int) -> None:
    with pytest.raises(CommandError) as failure:
        keys(key, document)
    assert failure.value.code == code


def test_sparse_indexes_skip_documents_without_the_fields() -> None:
    assert keys({"a": 1}, {"b": 1}, sparse=True) == []
    assert keys({"a": 1}, {"a": None}, sparse=True) == keys({"a": 1}, {"a": None})
    assert keys({"a": 1, "b": 1}, {"b": 1}, sparse=True) == keys({"a": 1, "b": 1}, {"b": 1})
    assert keys({"a.b": 1}, {"a": [{"b": 1}, {}]}, sparse=True) == keys({"a.b": 1}, {"a": {"b": 1}})


def test_partial_indexes_have_only_matching_documents() -> None:
    partial = {"partialFilterExpression": {"n": {"$gt": 5}}}
    assert keys({"a": 1}, {"a": 1, "n": 5}, **partial) == []
    assert keys({"a": 1}, {"a": 1, "n": 6}, **partial) == keys({"a": 1}, {"a": 1})


def test_hashed_keys_depend_on_the_number_not_its_type() -> None:
    assert keys({"a": "hashed"}, {"a": 5}) == keys({"a": "hashed"}, {"a": 5.0})
    assert keys({"a": "hashed"}, {}) == keys({"a": "hashed"}, {"a": None})
    assert keys({"a": "hashed", "b": 1}, {"a": 5, "b": 1}) != keys({"a": "hashed", "b": 1}, {"a": 5, "b": 2})


def test_special_kinds_have_no_keys() -> None:
    for kind in ("text", "2d", "2dsphere"):
        assert keys({"a": kind, "b": 1}, {"a": "some words", "b": 1}) == []


def test_wildcard_indexes_have_every_value_by_its_path() -> None:
    document = {"_id": 1, "a": {"b": [1, {"c": 2}]}, "d": {}, "e": []}
    assert values({"$**": 1}, document) == [["a.b", 1], ["a.b.c", 2], ["d", {}], ["e", Undefined()]]
    assert values({"a.$**": 1}, document) == [["a.b", 1], ["a.b.c", 2]]
    assert values({"d.$**": 1}, {"d": 5}) == [["d", 5]]
    assert values({"$**": 1}, document, wildcardProjection={"d": 1, "_id": 1}) == [["_id", 1], ["d", {}]]
    assert values({"$**": 1}, document, wildcardProjection={"a": 0}) == [["d", {}], ["e", Undefined()]]
    assert values({"x": 1, "a.$**": 1}, {"x": 9, "a": {"b": 1}}) == [[9, "a.b", 1]]


def test_collations_replace_strings_everywhere() -> None:
    collation = {"collation": {"locale": "en", "strength": 2}}
    for one, other in (("Résumé", "rÉSUMÉ"), (["A"], ["a"]), ({"x": ["A"]}, {"x": ["a"]})):
        assert keys({"a": 1}, {"a": one}, **collation) == keys({"a": 1}, {"a": other}, **collation)
    assert keys({"a": 1}, {"a": "resume"}, **collation) != keys({"a": 1}, {"a": "résumé"}, **collation)
    assert keys({"a": 1}, {"a": 5}, **collation) == keys({"a": 1}, {"a": 5})


@pytest.mark.parametrize(
    "spec",
    [
        {"locale": "en"},
        {"locale": "en", "strength": 1},
        {"locale": "en", "strength": 5},
        {"locale": "en", "numericOrdering": True},
        {"locale": "fr_CA"},
        {"locale": "en", "alternate": "shifted", "strength": 4},
        {"locale": "en", "caseLevel": True, "strength": 1},
    ],
)
def test_collated_bytes_have_the_order_of_the_collation(spec: Document) -> None:
    collation = Collation.parse(spec)
    assert collation is not None
    texts = [
        "",
        "a",
        "A",
        "á",
        "ab",
        "a b",
        "a-b",
        "b",
        "a2",
        "a10",
        "a" + "9" * 700,
        "ß",
        "ss",
        "ø",
        "\0",
        "日",
    ]
    by_key = sorted(texts, key=lambda text: (collation_key(collation, text), text))
    assert by_key == sorted(texts, key=lambda text: (collation.string_key(text), text))
    for one in texts:
        for other in texts:
            same = collation.string_key(one) == collation.string_key(other)
            assert (collation_key(collation, one) == collation_key(collation, other)) == same


def test_long_values_keep_their_order_and_stay_different() -> None:
    start = "x" * 3000
    one, other = keys({"a": 1}, {"a": start + "1"}), keys({"a": 1}, {"a": start + "2"})
    assert one != other
    assert max(len(key) for key in one + other) < 500
    assert keys({"a": 1}, {"a": "w"}) < one < keys({"a": 1}, {"a": "y"})
