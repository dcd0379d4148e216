"""Projections of `find`: results with their field order, from bytes to bytes, and errors with their codes."""

from typing import Any

import pytest
from bson import Decimal128, Int64
from hypothesis import given
from hypothesis import strategies as st

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.language.find_projection import compile_find_projection
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match
from tailrace.query.reshape import compile_stage

DOCUMENT: dict[str, Any] = {
    "_id": 7,
    "a": {"x": 1, "y": {"z": 2, "w": 3}},
    "b": 5,
    "c": None,
    "n": [1, 2, 3, 4, 5],
    "d": [{"k": 1, "v": [1, 2, 3]}, {"k": 2, "v": [4, 5, 6]}, 9, {"k": 2}],
}


def project(spec: dict[str, Any], document: dict[str, Any] = DOCUMENT, **options: Any) -> dict[str, Any]:
    projection = compile_find_projection(spec, **options)
    raw = encode(document)
    result = projection.apply(raw)
    assert projection.apply(raw, document) == result, "the same with the document decoded before"
    return decode(result)


def only(*names: str) -> dict[str, Any]:
    return {name: value for name, value in DOCUMENT.items() if name in names}


def but(*names: str, **replaced: Any) -> dict[str, Any]:
    return {name: replaced.get(name, value) for name, value in DOCUMENT.items() if name not in names}


PROJECTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, DOCUMENT),
    # top-level fields
    ({"b": 1}, only("_id", "b")),
    ({"c": True, "b": 2.5, "a": Int64(1)}, only("_id", "a", "b", "c")),
    ({"b": 1, "_id": 0}, only("b")),
    ({"_id": 1}, only("_id")),
    ({"_id": 1, "b": 1}, only("_id", "b")),
    ({"nothing": 1}, only("_id")),
    ({"nothing": 1, "_id": 0}, {}),
    ({"b": 0}, but("b")),
    ({"b": False, "c": Decimal128("0")}, but("b", "c")),
    ({"_id": 0}, but("_id")),
    ({"_id": 1, "b": 0}, but("b")),
    ({"_id": 0, "b": 0}, but("_id", "b")),
    # paths
    ({"a.y.z": 1}, {"_id": 7, "a": {"y": {"z": 2}}}),
    ({"a": {"y": {"z": 1}}, "b": 1}, {"_id": 7, "a": {"y": {"z": 2}}, "b": 5}),
    ({"d.k": 1, "_id": 0}, {"d": [{"k": 1}, {"k": 2}, {"k": 2}]}),
    ({"a.y": 0}, but(a={"x": 1})),
    ({"d.v": 0, "_id": 0, "a": 0}, but("_id", "a", d=[{"k": 1}, {"k": 2}, 9, {"k": 2}])),
    # computed fields and literals
    ({"s": {"$add": ["$b", 1]}}, {"_id": 7, "s": 6}),
    ({"s": "$a.x", "b": 1}, {"_id": 7, "b": 5, "s": 1}),
    ({"s": "text"}, {"_id": 7, "s": "text"}),
    ({"n": {"$slice": ["$n", 1, 2]}}, {"_id": 7, "n": [2, 3]}),
    # $slice
    ({"n": {"$slice": 2}}, but(n=[1, 2])),
    ({"n": {"$slice": -2}}, but(n=[4, 5])),
    ({"n": {"$slice": 0}}, but(n=[])),
    ({"n": {"$slice": 99}}, DOCUMENT),
    ({"n": {"$slice": 2**40}}, DOCUMENT),
    ({"n": {"$slice": 1.9}}, but(n=[1])),
    ({"n": {"$slice": [1, 2]}}, but(n=[2, 3])),
    ({"n": {"$slice": [-2, 1]}}, but(n=[4])),
    ({"n": {"$slice": [-9, 2]}}, but(n=[1, 2])),
    ({"n": {"$slice": [9, 2]}}, but(n=[])),
    ({"b": {"$slice": 1}}, DOCUMENT),
    ({"n": {"$slice": 1}, "b": 1}, {"_id": 7, "b": 5, "n": [1]}),
    ({"n": {"$slice": 1}, "_id": 0, "a": 0}, but("_id", "a", n=[1])),
    ({"n": {"$slice": 1}, "_id": 1}, but(n=[1])),
    ({"d.v": {"$slice": 1}}, but(d=[{"k": 1, "v": [1]}, {"k": 2, "v": [4]}, 9, {"k": 2}])),
    ({"d.v": {"$slice": 1}, "d.k": 0}, but(d=[{"v": [1]}, {"v": [4]}, 9, {}])),
    ({"d.v": {"$slice": 1}, "d.k": 1, "_id": 0}, {"d": [{"k": 1, "v": [1]}, {"k": 2, "v": [4]}, {"k": 2}]}),
    # $elemMatch
    ({"d": {"$elemMatch": {"k": 2}}}, {"_id": 7, "d": [{"k": 2, "v": [4, 5, 6]}]}),
    ({"d": {"$elemMatch": {"k": 2, "v": {"$exists": False}}}}, {"_id": 7, "d": [{"k": 2}]}),
    ({"d": {"$elemMatch": {"k": 99}}, "b": 1}, {"_id": 7, "b": 5}),
    ({"n": {"$elemMatch": {"$gt": 3}}, "b": 1, "_id": 0}, {"b": 5, "n": [4]}),
    ({"b": {"$elemMatch": {"$gt": 3}}}, {"_id": 7}),
    ({"d": {"$elemMatch": {"k": 2}}, "n": {"$slice": 1}}, {"_id": 7, "n": [1], "d": [DOCUMENT["d"][1]]}),
]


@pytest.mark.parametrize(("spec", "expected"), PROJECTIONS)
def test_projection(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert repr(project(spec)) == repr(expected)


POSITIONAL: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"n": {"$gt": 3}}, {"n.$": 1}, {"_id": 7, "n": [4]}),
    ({"d.k": 2}, {"d.$": 1, "_id": 0}, {"d": [{"k": 2, "v": [4, 5, 6]}]}),
    ({"d": {"$elemMatch": {"k": 2, "v": 6}}}, {"d.k.$": 1, "_id": 0}, {"d": [{"k": 2}]}),
    ({"n": 2}, {"n.$": True, "b": 1}, {"_id": 7, "b": 5, "n": [2]}),
    ({"n": 2}, {"b.$": 1}, {"_id": 7, "b": 5}),
]


@pytest.mark.parametrize(("query", "spec", "expected"), POSITIONAL)
def test_positional(query: dict[str, Any], spec: dict[str, Any], expected: dict[str, Any]) -> None:
    assert repr(project(spec, matcher=compile_match(query))) == repr(expected)


def test_positional_without_an_element_that_matched() -> None:
    projection = compile_find_projection({"n.$": 1}, matcher=compile_match({"b": 5}))
    with pytest.raises(CommandError) as caught:
        projection.apply(encode(DOCUMENT))
    assert caught.value.code == 51246
    projection = compile_find_projection({"v.$": 1}, matcher=compile_match({"n": 5}))
    with pytest.raises(CommandError) as caught:
        projection.apply(encode({"n": [1, 5], "v": [1]}))
    assert caught.value.code == 51247


ERRORS: list[tuple[dict[str, Any], int]] = [
    ({"a": 1, "b": 0}, 31254),
    ({"a": 0, "b": 1}, 31253),
    ({"a": 1, "a.b": 1}, 31249),
    ({"a.b": 1, "a": 1}, 31250),
    ({"a": 0, "b": "$c"}, 31310),
    ({"a": 0, "b": {"$add": [1, 2]}}, 31252),
    ({"a": 0, "d": {"$elemMatch": {"k": 1}}}, 31252),
    ({"a": {"$nothing": 1}}, 31325),
    ({"a": {}}, 51270),
    ({"a..b": 1}, 15998),
    ({"$a": 1}, 16410),
    ({"": 1}, 40352),
    ({"a.$.b": 1}, 31394),
    ({"a.$": 0}, 31395),
    ({"a.$": "x"}, 31308),
    ({"a.$": {"$add": [1, 2]}}, 31271),
    ({"a.$": 1, "b.$": 1}, 31276),
    ({"a.$": 1, "d": {"$elemMatch": {"k": 1}}}, 31255),
    ({"d": {"$elemMatch": {"k": 1}}, "a.$": 1}, 31256),
    ({"d": {"$elemMatch": 1}}, 31274),
    ({"d.v": {"$elemMatch": {"k": 1}}}, 31275),
    ({"n": {"$slice": "x"}}, 28667),
    ({"n": {"$slice": [1]}}, 28667),
    ({"n": {"$slice": [1, "x"]}}, 28724),
    ({"n": {"$slice": [1, 0]}}, 28724),
    ({"n": {"$slice": 1}, "n.x": 1}, 31249),
    ({"s": {"$meta": "textScore"}}, 40218),
    ({"s": {"$meta": "nonsense"}}, 17308),
    ({"s": {"$meta": 1}}, 17307),
]


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_errors(spec: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_find_projection(spec, matcher=compile_match({"n": 1}))
    assert caught.value.code == code, caught.value


def test_positional_needs_a_query() -> None:
    with pytest.raises(CommandError) as caught:
        compile_find_projection({"a.$": 1})
    assert caught.value.code == 51050


def test_variables_and_collation() -> None:
    collation = Collation.parse({"locale": "en", "strength": 2})
    spec = {"v": "$$mine", "t": {"$elemMatch": {"$eq": "B"}}, "_id": 0}
    document = {"t": ["a", "b"]}
    expected = {"v": 3, "t": ["b"]}
    assert project(spec, document, variables={"mine": 3}, collation=collation) == expected


_NAMES = st.sampled_from(["_id", "a", "b", "c", "d"])


@given(
    st.dictionaries(_NAMES, st.integers(0, 9), min_size=1),
    st.dictionaries(_NAMES.filter(lambda name: name != "_id"), st.just(1), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_projections_of_bytes_and_of_values_agree(
    document: dict[str, Any], fields: dict[str, int], keeps: bool, keeps_id: bool
) -> None:
    spec = {name: int(keeps) for name in fields} | {"_id": int(keeps_id)}
    assert project(spec, document) == compile_stage("$project", spec)(document)
