"""Plans and their figures beside the real server, where both choose the same index."""

from typing import Any

import pytest

from tests.oracle.comparison import Document, value_differences
from tests.oracle.twins import Twins

DATABASE = "explained"
OWN = frozenset({"queryHash", "planCacheKey", "rejectedPlans", "totalDataSizeSorted", "executionTimeMillis"})
TIMES = frozenset({"executionTimeMillisEstimate", "seeks", "saveState", "restoreState"})
COMPOUND: Document = {"key": {"a": 1, "b": -1}, "name": "ab"}

FINDS: list[Document] = [
    {},
    {"filter": {"_id": 3}},
    {"filter": {"_id": 3}, "projection": {"b": 1}},
    {"filter": {"_id": 3, "b": 3}},
    {"filter": {"a": 1}},
    {"filter": {"a": 1, "b": {"$gt": 3, "$lt": 9}}},
    {"filter": {"a": 1, "z": 1}, "skip": 1},
    {"filter": {"m": 3}},
    {"filter": {"m": {"$lte": 4}}},
    {"filter": {"a": {"$gt": 1}}},
    {"filter": {"a": 2, "b": {"$lt": 12}}},
    {"filter": {"d.e": {"$gt": 4, "$lt": 9}}, "projection": {"d": 1}},
    {"filter": {"a": 1}, "projection": {"a": 1, "b": 1, "_id": 0}},
    {"filter": {"a": 1}, "projection": {"z": 1}, "skip": 1, "limit": 2},
    {"filter": {"a": 1}, "projection": {"a": 1, "_id": 0}, "skip": 1, "limit": 2},
    {"filter": {"a": 1}, "projection": {"d.e": 1}},
    {"filter": {"a": 1}, "projection": {"d": 0}},
    {"filter": {"d.e": 1}, "projection": {"d.e": 1, "_id": 0}},
    {"filter": {"z": 1}, "projection": {"a": 1}, "sort": {"z": 1}, "skip": 1, "limit": 2},
    {"filter": {"a": 1}, "sort": {"z": 1}, "limit": 1},
    {"sort": {"z": 1}, "projection": {"z": 1}},
    {"sort": {"a": 1, "b": -1}, "limit": 3},
    {"limit": 2, "skip": 1, "projection": {"a": 1}},
    {"filter": {"z": {"$in": [3, 1, 1]}, "y": {"$ne": None}, "$nor": [{"x": 1}]}},
    {"filter": {"$or": [{"z": 2}, {"y": 1}], "x": {"$exists": False}}},
    {"filter": {"z": {"$elemMatch": {"$gt": 1, "$lt": 3}}, "y": {"$all": [1, 2]}}},
    {"filter": {"z": {"$not": {"$gt": 1}}, "y": {"$not": {"$gt": 1, "$lt": 5}}}},
    {"filter": {"z": {"$regex": "x", "$options": "i"}, "$and": [{"y": 1}, {"x": {"$gte": 2}}]}},
]
OTHERS: list[Document] = [
    {"count": "c"},
    {"count": "c", "query": {"a": 1}},
    {"count": "c", "query": {"a": 1, "z": 1}},
    {"count": "c", "query": {"z": 1}, "limit": 2, "skip": 1},
    {"count": "c", "query": {"_id": 1}},
    {"count": "nothing"},
    {"find": "nothing", "filter": {"a": 1}},
    {"distinct": "c", "key": "a"},
    {"distinct": "c", "key": "a", "query": {"a": {"$gt": 1}}},
    {"distinct": "c", "key": "z", "query": {"a": 1}},
    {"distinct": "c", "key": "z"},
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"z": 1}}}]},
    {"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"z": 1}}, "multi": True}]},
    {"update": "c", "updates": [{"q": {"z": 1}, "u": {"$set": {"z": 1}}, "upsert": True}]},
    {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 0}]},
    {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    {"findAndModify": "c", "query": {"a": 1}, "update": {"$set": {"z": 1}}, "sort": {"b": 1}},
    {"findAndModify": "c", "query": {"z": 1}, "remove": True, "sort": {"s": 1}},
    {"aggregate": "c", "pipeline": [], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$sort": {"z": 1}}, {"$limit": 2}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$project": {"a": 1}}], "cursor": {}},
    {
        "aggregate": "c",
        "pipeline": [{"$sort": {"a": 1, "b": -1}}, {"$skip": 1}, {"$project": {"a": 1, "_id": 0}}],
        "cursor": {},
    },
    {"find": "v", "filter": {"a": 1}},
]


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    documents = [{"_id": n, "a": n % 5, "b": n, "m": [n, n + 1], "d": {"e": n}} for n in range(20)]
    twins.same({"insert": "c", "documents": documents}, DATABASE)
    indexes: list[Document] = [COMPOUND, {"key": {"m": 1}, "name": "m"}, {"key": {"d.e": 1}, "name": "de"}]
    twins.same({"createIndexes": "c", "indexes": indexes}, DATABASE)
    twins.same({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"b": {"$gt": 3}}}]}, DATABASE)
    return twins


def compared(value: Any) -> Any:
    """An explanation without what is each server's own."""
    if isinstance(value, dict):
        return {name: compared(item) for name, item in value.items() if name not in OWN | TIMES}
    return [compared(item) for item in value] if isinstance(value, list) else value


def require_equal(twins: Twins, command: Document, verbosity: str) -> None:
    pair = twins.run({"explain": command, "verbosity": verbosity}, DATABASE)
    names = ["explainVersion", "queryPlanner", "executionStats", "serverParameters"]
    if "findAndModify" not in command and command.get("find") != "v":
        names.append("command")  # of these, a mongod shows what it translated them to
    real, ours = ({name: reply.get(name) for name in names} for reply in (pair.real, pair.ours))
    assert list(pair.ours) == list(pair.real)
    found = list(value_differences("", compared(real), compared(ours)))
    assert not found, f"{command}\n" + "\n".join(map(str, found))


@pytest.mark.parametrize("options", FINDS, ids=str)
@pytest.mark.parametrize("verbosity", ["queryPlanner", "executionStats"])
def test_plans_of_finds(filled: Twins, options: Document, verbosity: str) -> None:
    require_equal(filled, {"find": "c", **options}, verbosity)


@pytest.mark.parametrize("command", OTHERS, ids=str)
@pytest.mark.parametrize("verbosity", ["queryPlanner", "executionStats"])
def test_plans_of_other_commands(filled: Twins, command: Document, verbosity: str) -> None:
    require_equal(filled, command, verbosity)
