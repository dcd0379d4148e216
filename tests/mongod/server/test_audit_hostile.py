"""Commands that try to keep the server busy or to fill its memory are refused, or end in time."""

from typing import Any

import pytest
from pymongo.database import Database
from pymongo.errors import ExecutionTimeout

from tests.mongod.server.oplog import refused
from tests.mongod.server.running import Document, RunningServer

DOUBLED = {"input": {"$range": [0, 40]}}


@pytest.fixture
def one(database: Database[Document]) -> Database[Document]:
    database.c.insert_one({"_id": 1, "text": "a" * 60 + "b"})
    return database


def project(database: Database[Document], expression: Any) -> Any:
    (found,) = database.c.aggregate([{"$project": {"found": expression}}])
    return found["found"]


def test_a_string_cannot_be_doubled_without_limit(one: Database[Document]) -> None:
    twice = {"$concat": ["$$value", "$$value"]}
    with refused(13548):
        project(one, {"$strLenCP": {"$reduce": {**DOUBLED, "initialValue": "x", "in": twice}}})


def test_an_array_cannot_be_doubled_without_limit(one: Database[Document]) -> None:
    twice = {"$concatArrays": ["$$value", "$$value"]}
    with refused(146):
        project(one, {"$size": {"$reduce": {**DOUBLED, "initialValue": [1], "in": twice}}})


def test_a_string_cannot_be_replaced_by_a_huge_one(one: Database[Document]) -> None:
    million = {
        "$reduce": {"input": {"$range": [0, 20]}, "initialValue": "x", "in": {"$concat": ["$$value"] * 2}}
    }
    with refused(13548):
        project(one, {"$strLenCP": {"$replaceAll": {"input": million, "find": "x", "replacement": million}}})
    replaced = {"$replaceAll": {"input": "aXbX", "find": "X", "replacement": "yy"}}
    assert project(one, replaced) == "ayybyy"


def test_repeated_unwinds_end_in_time(one: Database[Document]) -> None:
    steps = ({"$set": {name: {"$range": [0, 100_000]}}} for name in ("x", "y"))
    pipeline = [stage for step in steps for stage in (step, {"$unwind": f"${next(iter(step['$set']))}"})]
    with pytest.raises(ExecutionTimeout):
        list(one.c.aggregate([*pipeline, {"$count": "number"}], maxTimeMS=100))


def test_as_many_stages_as_a_pipeline_may_have(one: Database[Document]) -> None:
    stages: list[Document] = [
        {"$set": {"n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}}},
        {"$match": {"n": {"$gt": 0}}},
    ] * 500
    (found,) = one.c.aggregate(stages, maxTimeMS=60_000)
    assert found["n"] == 500


def test_deep_nesting_is_not_an_internal_error(one: Database[Document], server: RunningServer) -> None:
    faults = [line for line in server.log() if line["s"] == "E"]
    with refused(15):
        list(one.c.aggregate([{"$unwind": "$_id"}] * 1000))
    assert [line for line in server.log() if line["s"] == "E"] == faults


def test_a_regular_expression_cannot_stop_the_server(one: Database[Document]) -> None:
    assert one.c.count_documents({"text": {"$regex": "^(a+)+$"}}) == 0
    with refused(51156):
        one.c.count_documents({"text": {"$regex": "^(a|a)*$"}})
    with refused(51156):
        project(one, {"$regexMatch": {"input": "$text", "regex": "^(a|a)*$"}})
    with refused(51156):
        one.c.update_one({"text": {"$regex": "^(a|a)*$"}}, {"$set": {"found": True}})
    assert one.c.find_one({"text": {"$regex": "^a+b$"}}) is not None
