"""`$graphLookup`, `$unionWith` and `$facet`."""

from typing import Any

import pytest
from bson import Int64, Regex

from tests.mongod.language.aggregation.pipeline_helpers import (
    Collections,
    assert_code,
    assert_results,
    results,
)

STAFF = [
    {"_id": 1, "name": "Dev"},
    {"_id": 2, "name": "Eliot", "boss": "Dev"},
    {"_id": 3, "name": "Ron", "boss": "Eliot"},
    {"_id": 4, "name": "Andrew", "boss": "Eliot"},
    {"_id": 5, "name": "Asya", "boss": "Ron"},
]


def bosses(**more: Any) -> dict[str, Any]:
    spec = {
        "from": "staff",
        "startWith": "$boss",
        "connectFromField": "boss",
        "connectToField": "name",
        "as": "up",
    }
    return {"$graphLookup": {**spec, **more}}


def names(stage: dict[str, Any], document: dict[str, Any]) -> list[str]:
    (result,) = results([stage], [document], foreign={"staff": STAFF})
    return [found["name"] for found in result["up"]]


def test_graph_lookup_continues_until_nothing_is_new() -> None:
    assert names(bosses(), STAFF[4]) == ["Ron", "Eliot", "Dev"]
    assert names(bosses(), STAFF[0]) == [], "a missing start leads nowhere"


def test_graph_lookup_starts_with_a_regex() -> None:
    assert sorted(names(bosses(startWith=Regex("^A")), {})) == ["Andrew", "Asya", "Dev", "Eliot", "Ron"]
    assert names(bosses(startWith=Regex("^X")), {}) == []


def test_graph_lookup_options() -> None:
    assert names(bosses(maxDepth=0), STAFF[4]) == ["Ron"]
    assert names(bosses(maxDepth=1.0), STAFF[4]) == ["Ron", "Eliot"]
    assert names(bosses(restrictSearchWithMatch={"name": {"$ne": "Eliot"}}), STAFF[4]) == ["Ron"]
    (result,) = results([bosses(depthField="d.n")], [STAFF[4]], foreign={"staff": STAFF})
    assert [found["d"]["n"] for found in result["up"]] == [0, 1, 2]
    assert all(isinstance(found["d"]["n"], Int64) for found in result["up"])


def test_graph_lookup_through_arrays_and_cycles() -> None:
    nodes = [{"_id": 1, "to": [2, 3]}, {"_id": 2, "to": [1]}, {"_id": 3, "to": [4]}, {"_id": 4, "to": 1}]
    stage = {
        "$graphLookup": {
            "from": "nodes",
            "startWith": {"$concatArrays": [["$_id"], "$more"]},
            "connectFromField": "to",
            "connectToField": "_id",
            "as": "all",
        }
    }
    foreign = Collections({"nodes": nodes})
    (result,) = results([stage], [{"_id": 1, "more": [9, 1]}], foreign=foreign)
    assert [node["_id"] for node in result["all"]] == [1, 2, 3, 4]
    assert foreign.scans == ["nodes"]
    indexed = Collections({"nodes": nodes}, indexes=[("nodes", "_id")])
    (by_index,) = results([stage], [{"_id": 1, "more": [9, 1]}], foreign=indexed)
    assert by_index == result
    assert indexed.scans == []


def test_graph_lookup_distinguishes_null_and_missing() -> None:
    documents = [{"_id": 1, "x": 1, "y": None}, {"_id": 2, "x": 1}, {"_id": 3, "x": 1, "y": 1}]
    stage = {
        "$graphLookup": {
            "from": "c", "startWith": "$y", "connectFromField": "x", "connectToField": "y", "as": "r",
            "maxDepth": 0,
        }
    }  # fmt: skip
    found = results([stage], documents, foreign={"c": documents})
    assert [[other["_id"] for other in document["r"]] for document in found] == [[1], [], [3]]


GRAPH_ERRORS: list[tuple[Any, int]] = [
    (4, 9),
    ({"maxDepth": "x"}, 40100),
    ({"maxDepth": -1}, 40101),
    ({"maxDepth": 2.3}, 40102),
    ({"from": -1}, 9),
    ({"from": ""}, 73),
    ({"from": None}, 9),
    ({"as": 0}, 40103),
    ({"as": "$x"}, 16410),
    ({"connectFromField": 0}, 40103),
    ({"connectFromField": "$b"}, 16410),
    ({"connectToField": "$b"}, 16410),
    ({"depthField": 0}, 40103),
    ({"depthField": "$d"}, 16410),
    ({"restrictSearchWithMatch": "x"}, 40185),
    ({"restrictSearchWithMatch": {"$where": "1"}}, 2),
    ({"other": 1}, 40104),
]


@pytest.mark.parametrize(("changes", "code"), GRAPH_ERRORS)
def test_graph_lookup_errors(changes: Any, code: int) -> None:
    assert_code([bosses(**changes) if isinstance(changes, dict) else {"$graphLookup": changes}], code)


@pytest.mark.parametrize("option", ["as", "startWith", "connectFromField", "connectToField"])
def test_graph_lookup_requires_options(option: str) -> None:
    spec = dict(bosses()["$graphLookup"])
    del spec[option]
    assert_code([{"$graphLookup": spec}], 40105)
    del spec["from"]
    assert_code([{"$graphLookup": spec}], 9)


def test_union_with() -> None:
    foreign = {"c": [{"n": 3}, {"n": 4}], "d": [{"n": 5}]}
    documents = [{"n": 1}, {"n": 2}]
    assert_results([{"$unionWith": "c"}], documents, [*documents, *foreign["c"]], foreign=foreign)
    stages = [
        {"$match": {"n": 2}},
        {"$unionWith": {"coll": "c", "pipeline": [{"$match": {"n": 4}}, {"$unionWith": "d"}]}},
        {"$set": {"all": True}},
    ]
    assert_results(stages, documents, [{"n": n, "all": True} for n in (2, 4, 5)], foreign=foreign)
    stages = [{"$unionWith": {"pipeline": [{"$documents": [{"n": 7}]}]}}]
    assert_results(stages, documents, [*documents, {"n": 7}])


def test_union_with_does_not_read_ahead() -> None:
    foreign = Collections({"c": [{"n": 3}]})
    assert_results([{"$unionWith": "c"}, {"$limit": 1}], [{"n": 1}], [{"n": 1}], foreign=foreign)
    assert foreign.scans == []


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (1, 9),
        ("", 73),
        ({"coll": 1}, 14),
        ({"coll": "c", "other": 1}, 40415),
        ({"coll": "c", "pipeline": {}}, 14),
        ({"pipeline": []}, 9),
        ({"pipeline": [{"$match": {}}]}, 9),
        ({"coll": "c", "pipeline": [{"$documents": []}]}, 73),
    ],
)
def test_union_with_errors(spec: Any, code: int) -> None:
    assert_code([{"$unionWith": spec}], code)


def test_facet() -> None:
    documents = [{"n": number} for number in range(5)]
    stage = {
        "$facet": {
            "few": [{"$limit": 2}],
            "count": [{"$count": "n"}],
            "none": [{"$match": {"n": 99}}],
            "all": [],
        }
    }
    expected = [{"few": documents[:2], "count": [{"n": 5}], "none": [], "all": documents}]
    assert_results([stage], documents, expected)
    assert_results([stage], [], [{"few": [], "count": [], "none": [], "all": []}])


def test_facet_after_documents() -> None:
    stages = [{"$documents": [{"n": 1}]}, {"$facet": {"a": [{"$set": {"m": "$n"}}]}}]
    assert_results(stages, [], [{"a": [{"n": 1, "m": 1}]}], collection=None)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (1, 40169),
        ({}, 40169),
        ({"a": 1}, 40170),
        ({"a.b": []}, 16412),
        ({"$a": []}, 16410),
        ({"": []}, 15998),
    ],
)
def test_facet_errors(spec: Any, code: int) -> None:
    assert_code([{"$facet": spec}], code)
