"""`$limit $skip $count $unwind $sortByCount $sample $documents $sort`, and the reshaping stages in a row."""

from typing import Any

import pytest
from bson import Decimal128, Int64

from tests.mongod.language.aggregation.pipeline_helpers import assert_code, assert_results, results

NUMBERS = [{"n": number} for number in range(10)]


def test_limit_and_skip() -> None:
    assert_results([{"$skip": 3}, {"$limit": 2}], NUMBERS, [{"n": 3}, {"n": 4}])
    assert_results([{"$limit": 3}, {"$skip": 2}], NUMBERS, [{"n": 2}])
    assert_results([{"$limit": Int64(99)}, {"$skip": 8.0}], NUMBERS, [{"n": 8}, {"n": 9}])
    assert_results([{"$skip": 99}], NUMBERS, [])
    assert_results([{"$skip": 0}, {"$limit": Decimal128("1")}], NUMBERS, [{"n": 0}])


def test_count() -> None:
    assert_results([{"$count": "total"}], NUMBERS, [{"total": 10}])
    assert_results([{"$count": "total"}], [], [])


def test_sort_holds_no_more_than_the_limit() -> None:
    documents = [{"n": (number * 7919) % 1000} for number in range(1000)]
    expected = sorted(documents, key=lambda document: -document["n"])
    assert results([{"$sort": {"n": -1}}], documents) == expected
    assert results([{"$sort": {"n": -1}}, {"$limit": 7}], documents) == expected[:7]
    assert results([{"$sort": {"n": -1}}, {"$skip": 5}, {"$limit": 7}], documents) == expected[5:12]
    stages = [{"$sort": {"n": -1}}, {"$limit": 7}, {"$skip": 5}, {"$limit": 9}]
    assert results(stages, documents) == expected[5:7]
    stages = [{"$sort": {"n": -1}}, {"$match": {"n": {"$lt": 500}}}, {"$limit": 1}]
    assert results(stages, documents) == [{"n": 499}]


def test_sort_by_count() -> None:
    documents = [{"k": key} for key in "abbccc"] + [{}]
    expected = [{"_id": "c", "count": 3}, {"_id": "b", "count": 2}, {"_id": "a", "count": 1}]
    assert_results([{"$sortByCount": "$k"}], documents, [*expected, {"_id": None, "count": 1}])
    assert_results([{"$sortByCount": "$k"}, {"$limit": 1}], documents, expected[:1])
    stage = {"$sortByCount": {"$gt": ["$k", "b"]}}
    assert_results([stage], documents, [{"_id": False, "count": 4}, {"_id": True, "count": 3}])


UNWIND: list[tuple[Any, dict[str, Any], list[dict[str, Any]]]] = [
    ("$a", {"_id": 1, "a": [1, 2], "b": 3}, [{"_id": 1, "a": 1, "b": 3}, {"_id": 1, "a": 2, "b": 3}]),
    ("$a", {"a": [[1], None]}, [{"a": [1]}, {"a": None}]),
    ("$a", {"a": 5}, [{"a": 5}]),
    ("$a", {"a": None}, []),
    ("$a", {"a": []}, []),
    ("$a", {}, []),
    ("$a.b", {"a": {"b": [1, 2], "c": 3}}, [{"a": {"b": 1, "c": 3}}, {"a": {"b": 2, "c": 3}}]),
    ("$a.b", {"a": [{"b": [1, 2]}]}, []),
    ({"path": "$a", "preserveNullAndEmptyArrays": True}, {"a": []}, [{}]),
    ({"path": "$a", "preserveNullAndEmptyArrays": True}, {"a": None, "b": 1}, [{"a": None, "b": 1}]),
    ({"path": "$a", "preserveNullAndEmptyArrays": True}, {"b": 1}, [{"b": 1}]),
    ({"path": "$a.b", "preserveNullAndEmptyArrays": True}, {"a": {"b": []}}, [{"a": {}}]),
    (
        {"path": "$a", "includeArrayIndex": "i"},
        {"a": ["x", "y"]},
        [{"a": "x", "i": Int64(0)}, {"a": "y", "i": Int64(1)}],
    ),
    ({"path": "$a", "includeArrayIndex": "i.j"}, {"a": 5}, [{"a": 5, "i": {"j": None}}]),
    (
        {"path": "$a", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": True},
        {"a": []},
        [{"i": None}],
    ),
    ({"path": "$a", "includeArrayIndex": "a"}, {"a": ["x"]}, [{"a": Int64(0)}]),
]


@pytest.mark.parametrize(("spec", "document", "expected"), UNWIND)
def test_unwind(spec: Any, document: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    assert_results([{"$unwind": spec}], [document], expected)


def test_sample() -> None:
    drawn = results([{"$sample": {"size": 4}}], NUMBERS)
    assert len({document["n"] for document in drawn}) == 4
    everything = results([{"$sample": {"size": 99}}], NUMBERS)
    assert sorted(document["n"] for document in everything) == list(range(10))
    firsts = {results([{"$sample": {"size": 1}}], NUMBERS)[0]["n"] for _ in range(200)}
    assert len(firsts) > 5, "one of ten drawn 200 times is nearly always each of them"


def test_documents() -> None:
    stages = [{"$documents": [{"a": 1}, {"a": {"$add": [1, 1]}}]}, {"$match": {"a": 2}}]
    assert_results(stages, [{"ignored": True}], [{"a": 2}], collection=None)
    stages = [{"$documents": "$$rows"}]
    assert_results(stages, [], [{"a": 3}], collection=None, variables={"rows": [{"a": 3}]})
    assert_code([{"$documents": {"a": 1}}], 5858203, collection=None)
    assert_code([{"$documents": [1]}], 40228, collection=None)


def test_reshaping_stages_in_a_row() -> None:
    stages = [
        {"$addFields": {"double": {"$multiply": ["$n", 2]}}},
        {"$set": {"nested.n": "$n"}},
        {"$unset": "n"},
        {"$project": {"_id": 0, "double": 1, "nested": 1}},
        {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$nested", {"d": "$double"}]}}},
        {"$redact": {"$cond": [{"$gt": ["$n", 7]}, "$$KEEP", "$$PRUNE"]}},
        {"$replaceWith": {"all": "$$ROOT"}},
    ]
    assert_results(stages, NUMBERS, [{"all": {"n": 8, "d": 16}}, {"all": {"n": 9, "d": 18}}])


ERRORS: list[tuple[dict[str, Any], int]] = [
    ({"$limit": 0}, 15958),
    ({"$limit": -1}, 5107201),
    ({"$limit": 1.5}, 5107201),
    ({"$limit": "x"}, 5107201),
    ({"$limit": True}, 5107201),
    ({"$skip": -1}, 5107200),
    ({"$skip": None}, 5107200),
    ({"$count": 1}, 40156),
    ({"$count": ""}, 40157),
    ({"$count": "$a"}, 40158),
    ({"$count": "a\0"}, 40159),
    ({"$count": "a.b"}, 40160),
    ({"$count": "_id"}, 9039800),
    ({"$sort": 1}, 15973),
    ({"$sort": {}}, 15976),
    ({"$sort": {"a": {"$meta": "textScore"}}}, 40218),
    ({"$sortByCount": 1}, 40149),
    ({"$sortByCount": "a"}, 40148),
    ({"$sortByCount": {"a": 1}}, 40147),
    ({"$sortByCount": {}}, 40147),
    ({"$unwind": 1}, 15981),
    ({"$unwind": "a"}, 28818),
    ({"$unwind": ""}, 28812),
    ({"$unwind": {}}, 28812),
    ({"$unwind": {"path": 1}}, 28808),
    ({"$unwind": {"path": "$a", "preserveNullAndEmptyArrays": 1}}, 28809),
    ({"$unwind": {"path": "$a", "includeArrayIndex": ""}}, 28810),
    ({"$unwind": {"path": "$a", "includeArrayIndex": 1}}, 28810),
    ({"$unwind": {"path": "$a", "includeArrayIndex": "$i"}}, 28822),
    ({"$unwind": {"path": "$a", "other": 1}}, 28811),
    ({"$sample": 1}, 28745),
    ({"$sample": {"size": "x"}}, 28746),
    ({"$sample": {"size": -1}}, 28747),
    ({"$sample": {"size": 1, "other": 1}}, 28748),
    ({"$sample": {}}, 28749),
    ({"$replaceRoot": {}}, 40414),
    ({"$replaceRoot": {"newRoot": "$n"}}, 40228),
]


@pytest.mark.parametrize(("stage", "code"), ERRORS)
def test_errors(stage: dict[str, Any], code: int) -> None:
    assert_code([stage], code, NUMBERS)


def test_a_sort_after_removed_fields() -> None:
    documents = [{"_id": 2, "a": 1}, {"_id": 1, "a": 1}]
    assert_results([{"$unset": "a"}, {"$sort": {"_id": 1}}], documents, [{"_id": 1}, {"_id": 2}])
