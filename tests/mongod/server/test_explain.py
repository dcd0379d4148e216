"""`explain`: the chosen plan, and its execution statistics."""

from typing import Any

import pytest
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tailrace.mongod.server.emulation.version import VERSION
from tailrace.testing.replica_set import ReplicaSet
from tests.mongod.server.running import Document

Db = Database[Document]


@pytest.fixture
def indexed(database: Db) -> Db:
    database.c.insert_many([{"_id": i, "k": i % 4, "n": i} for i in range(20)])
    database.c.create_index([("k", 1), ("n", -1)])
    return database


def explained(database: Db, command: Document, verbosity: str = "executionStats") -> Document:
    return database.command({"explain": command, "verbosity": verbosity})


def stages(plan: Document) -> list[str]:
    return [plan["stage"], *(stages(plan["inputStage"]) if "inputStage" in plan else [])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["COLLSCAN"]),
        ({"filter": {"n": 3}}, ["COLLSCAN"]),
        ({"filter": {"_id": 3}}, ["EXPRESS_IXSCAN"]),
        ({"filter": {"_id": {"$in": [1, 2]}}}, ["FETCH", "IXSCAN"]),
        ({"filter": {"k": 1}}, ["FETCH", "IXSCAN"]),
        ({"filter": {"k": 1}, "hint": {"$natural": 1}}, ["COLLSCAN"]),
        ({"sort": {"n": 1}}, ["SORT", "COLLSCAN"]),
        ({"sort": {"k": 1, "n": -1}}, ["FETCH", "IXSCAN"]),
        ({"filter": {"k": 1}, "sort": {"n": 1}}, ["FETCH", "IXSCAN"]),
        ({"filter": {"k": 1}, "sort": {"_id": 1}}, ["SORT", "FETCH", "IXSCAN"]),
        ({"filter": {"n": 1}, "projection": {"n": 1}}, ["PROJECTION_SIMPLE", "COLLSCAN"]),
        ({"skip": 1, "limit": 2}, ["LIMIT", "SKIP", "COLLSCAN"]),
        ({"filter": {"k": {"$gt": 5, "$lt": 2}}}, ["EOF"]),
    ],
)
def test_plans_of_find(indexed: Db, options: Document, expected: list[str]) -> None:
    reply = explained(indexed, {"find": "c", **options})
    assert stages(reply["queryPlanner"]["winningPlan"]) == expected
    assert reply["queryPlanner"]["namespace"] == f"{indexed.name}.c"
    returned = len(indexed.command({"find": "c", **options})["cursor"]["firstBatch"])
    assert reply["executionStats"]["nReturned"] == returned


def test_an_index_scan_in_detail(indexed: Db) -> None:
    reply = explained(
        indexed, {"find": "c", "filter": {"k": 1, "n": {"$gte": 5, "$lt": 10}}, "sort": {"n": 1}}
    )
    scan = reply["queryPlanner"]["winningPlan"]["inputStage"]
    assert scan["indexName"] == "k_1_n_-1"
    assert scan["keyPattern"] == {"k": 1, "n": -1}
    assert scan["direction"] == "backward"
    assert scan["isMultiKey"] is False
    assert scan["indexBounds"] == {"k": ["[1, 1]"], "n": ["[5, 10)"]}
    assert reply["executionStats"]["totalKeysExamined"] == 2
    assert reply["executionStats"]["totalDocsExamined"] == 2


def test_filters_are_shown_in_one_form(indexed: Db) -> None:
    query: Document = {"z": {"$ne": 1}, "n": {"$gt": 1, "$lt": 5}, "k": 2}
    planner = explained(indexed, {"find": "c", "filter": query})["queryPlanner"]
    assert planner["parsedQuery"] == {
        "$and": [{"k": {"$eq": 2}}, {"n": {"$lt": 5}}, {"n": {"$gt": 1}}, {"z": {"$not": {"$eq": 1}}}]
    }
    assert planner["winningPlan"]["filter"] == {"z": {"$not": {"$eq": 1}}}
    assert planner["winningPlan"]["inputStage"]["indexBounds"] == {"k": ["[2, 2]"], "n": ["(5, 1)"]}


def test_a_covered_query_reads_no_documents(indexed: Db) -> None:
    command: Document = {"find": "c", "filter": {"k": 1}, "projection": {"n": 1, "_id": 0}}
    reply = explained(indexed, command)
    assert stages(reply["queryPlanner"]["winningPlan"]) == ["PROJECTION_COVERED", "IXSCAN"]
    figures = reply["executionStats"]
    assert (figures["totalKeysExamined"], figures["totalDocsExamined"], figures["nReturned"]) == (5, 0, 5)
    reply = explained(indexed, {**command, "projection": {"n": 1}})
    assert stages(reply["queryPlanner"]["winningPlan"]) == ["PROJECTION_SIMPLE", "FETCH", "IXSCAN"]
    assert reply["executionStats"]["totalDocsExamined"] == 5


def test_keys_at_excluded_ends_are_not_counted(indexed: Db) -> None:
    figures = explained(indexed, {"find": "c", "filter": {"k": {"$gt": 1, "$lt": 3}}})["executionStats"]
    assert (figures["totalKeysExamined"], figures["totalDocsExamined"], figures["nReturned"]) == (5, 5, 5)


def test_arrays_are_shown_by_path(database: Db) -> None:
    database.c.insert_one({"_id": 1, "a": [{"b": 1}], "c": 1})
    database.c.create_index([("a.b", 1), ("c", 1)])
    plan = explained(database, {"find": "c", "filter": {"a.b": 1}})["queryPlanner"]["winningPlan"]
    scan = plan["inputStage"]
    assert (scan["isMultiKey"], scan["multiKeyPaths"]) == (True, {"a.b": ["a"], "c": []})


def test_a_pipeline_that_is_a_find_is_explained_as_one(indexed: Db) -> None:
    pipeline: list[Document] = [{"$match": {"k": 1}}, {"$sort": {"_id": 1}}, {"$limit": 2}]
    reply = explained(indexed, {"aggregate": "c", "pipeline": pipeline})
    assert reply["queryPlanner"]["optimizedPipeline"] is True
    assert stages(reply["queryPlanner"]["winningPlan"]) == ["SORT", "FETCH", "IXSCAN"]
    assert reply["executionStats"]["nReturned"] == 2


def test_an_older_release_shows_its_own_plans() -> None:
    with ReplicaSet(server_version="6.0.27") as replica_set, replica_set.client() as client:
        database = client["explained"]
        database.c.insert_one({"_id": 1})
        planner = explained(database, {"find": "c", "filter": {"_id": 1}})["queryPlanner"]
        assert planner["winningPlan"] == {"stage": "IDHACK"}
        assert list(planner)[:3] == ["namespace", "indexFilterSet", "parsedQuery"]
        plan = explained(database, {"delete": "c", "deletes": [{"q": {}, "limit": 0}]})["queryPlanner"]
        assert stages(plan["winningPlan"]) == ["DELETE", "COLLSCAN"]


def test_without_execution_nothing_is_counted(indexed: Db) -> None:
    reply = explained(indexed, {"find": "c"}, "queryPlanner")
    assert "executionStats" not in reply
    assert reply["serverInfo"]["version"] == VERSION
    assert reply["command"] == {"find": "c", "$db": indexed.name}


def test_cursors_of_the_driver(indexed: Db) -> None:
    reply = indexed.c.find({"k": 2}).explain()
    assert reply["executionStats"]["nReturned"] == 5
    assert reply["executionStats"]["allPlansExecution"] == []


def test_a_missing_collection(database: Db) -> None:
    reply = explained(database, {"find": "nothing", "filter": {"a": 1}})
    assert stages(reply["queryPlanner"]["winningPlan"]) == ["EOF"]


def test_aggregations(indexed: Db) -> None:
    pipeline: list[Document] = [{"$match": {"k": 1}}, {"$group": {"_id": "$n"}}]
    reply = indexed.command({"aggregate": "c", "pipeline": pipeline, "explain": True})
    cursor, group = reply["stages"]
    assert stages(cursor["$cursor"]["queryPlanner"]["winningPlan"]) == ["FETCH", "IXSCAN"]
    assert group == {"$group": {"_id": "$n"}}
    reply = explained(indexed, {"aggregate": "c", "pipeline": [{"$match": {"k": 1}}, {"$sort": {"n": -1}}]})
    assert stages(reply["queryPlanner"]["winningPlan"]) == ["FETCH", "IXSCAN"]
    assert reply["executionStats"]["nReturned"] == 5


def test_explaining_writes_nothing(indexed: Db) -> None:
    explained(indexed, {"aggregate": "c", "pipeline": [{"$match": {"k": 1}}, {"$out": "target"}]})
    explained(indexed, {"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
    explained(indexed, {"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}]})
    assert indexed.list_collection_names() == ["c"]
    assert indexed.c.count_documents({"x": {"$exists": False}}) == 20


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ({"count": "c"}, ["RECORD_STORE_FAST_COUNT"]),
        ({"count": "c", "query": {"k": 1}}, ["COUNT", "COUNT_SCAN"]),
        ({"distinct": "c", "key": "n", "query": {"k": 1}}, ["FETCH", "IXSCAN"]),
        ({"delete": "c", "deletes": [{"q": {"k": 1}, "limit": 0}]}, ["BATCHED_DELETE", "FETCH", "IXSCAN"]),
        ({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, ["DELETE", "EXPRESS_IXSCAN"]),
        ({"update": "c", "updates": [{"q": {"n": 1}, "u": {}, "multi": True}]}, ["UPDATE", "COLLSCAN"]),
        ({"findAndModify": "c", "query": {"k": 1}, "remove": True}, ["DELETE", "FETCH", "IXSCAN"]),
    ],
)
def test_other_commands(indexed: Db, command: Document, expected: list[str]) -> None:
    reply = explained(indexed, command)
    assert stages(reply["queryPlanner"]["winningPlan"]) == expected


def test_views_are_explained_as_pipelines(indexed: Db) -> None:
    indexed.command({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"k": 1}}, {"$set": {"x": 1}}]})
    reply = explained(indexed, {"find": "v", "filter": {"x": 1}})
    cursor, *rest = reply["stages"]
    assert stages(cursor["$cursor"]["queryPlanner"]["winningPlan"]) == ["FETCH", "IXSCAN"]
    assert rest == [{"$set": {"x": 1}}, {"$match": {"x": 1}}]


def test_change_streams_are_explained(database: Db) -> None:
    reply = explained(database, {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}})
    assert reply["stages"][0]["$changeStream"]["stage"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"explain": {"ping": 1}}, 59),
        ({"explain": {}}, 59),
        ({"explain": 1}, 14),
        ({"explain": {"find": "c"}, "verbosity": "much"}, 2),
        ({"explain": {"find": "c", "nope": 1}}, 40415),
        ({"explain": {"find": "c", "$db": "other"}}, 73),
        ({"explain": {"update": "c", "updates": []}}, 16),
        ({"explain": {"find": "c", "filter": {"a": {"$x": 1}}}}, 2),
    ],
)
def test_refused_commands(database: Db, command: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as failure:
        database.command(command)
    assert failure.value.code == code
