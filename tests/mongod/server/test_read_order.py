"""The order and the metadata of reads that have no sort: as a mongod chooses indexes."""

from typing import Any

import pytest
from bson import Decimal128, MinKey
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document

Db = Database[Document]
IDS = (5, 3, 9, 1, 7)


@pytest.fixture
def numbers(database: Db) -> Db:
    database.c.insert_many([{"_id": number, "n": 10 - number} for number in IDS])
    return database


@pytest.mark.parametrize(
    "condition",
    [
        {"_id": {"$ne": 5}}, {"_id": {"$nin": [5]}}, {"_id": {"$exists": True}}, {"_id": {"$type": "number"}},
        {"_id": {"$mod": [2, 1]}}, {"_id": {"$gt": MinKey()}}, {"_id": {"$not": {"$gt": 8}}},
        {"$nor": [{"_id": 5}]}, {"$or": [{"_id": 9}, {"_id": 3}]}, {"$expr": {"$gt": ["$_id", 2]}},
    ],
)  # fmt: skip
def test_any_condition_on_an_indexed_field_gives_its_order(numbers: Db, condition: Document) -> None:
    found = [document["_id"] for document in numbers.c.find(condition)]
    assert found == sorted(found)
    assert len(found) > 1


@pytest.mark.parametrize(
    "condition", [{}, {"_id": {"$size": 1}}, {"_id": {"$bitsAllSet": 1}}, {"n": {"$gt": 0}}]
)
def test_others_give_the_order_of_insertion(numbers: Db, condition: Document) -> None:
    found = [document["_id"] for document in numbers.c.find(condition)]
    assert found == [number for number in IDS if number in found]


def test_a_wide_condition_on_another_index(numbers: Db) -> None:
    numbers.c.create_index("n")
    assert [document["n"] for document in numbers.c.find({"n": {"$ne": 5}})] == [1, 3, 7, 9]


def test_a_partial_index_serves_a_narrower_range(numbers: Db) -> None:
    numbers.c.create_index("x", partialFilterExpression={"a": {"$lte": 1.5}})
    for condition, is_served in (({"$lte": 1}, True), ({"$lt": 1.5}, True), ({"$lte": 2}, False)):
        plan = numbers.c.find({"x": 6, "a": condition}).explain()["queryPlanner"]["winningPlan"]
        assert ("IXSCAN" in str(plan)) is is_served


def test_keys_and_record_ids(numbers: Db) -> None:
    command: dict[str, Any] = {"find": "c", "filter": {"_id": 5}, "returnKey": True}
    assert numbers.command(command)["cursor"]["firstBatch"] == [{"_id": 5}]
    command = {"find": "c", "returnKey": True, "showRecordId": True, "limit": 1}
    assert numbers.command(command)["cursor"]["firstBatch"] == [{}]
    found = list(numbers.c.find({}, {"n": 1, "r": {"$meta": "recordId"}}))
    assert found[:2] == [{"_id": 5, "n": 5, "r": 1}, {"_id": 3, "n": 7, "r": 2}]


def test_directions_that_are_not_whole(numbers: Db) -> None:
    for direction in (-1.5, Decimal128("-1")):
        found = numbers.command({"find": "c", "sort": {"_id": direction}})["cursor"]["firstBatch"]
        assert [document["_id"] for document in found] == sorted(IDS, reverse=True)
    found = numbers.command({"find": "c", "sort": {"$natural": -2}})["cursor"]["firstBatch"]
    assert [document["_id"] for document in found] == list(reversed(IDS))


def test_text_search_needs_an_index(numbers: Db) -> None:
    with pytest.raises(OperationFailure) as failure:
        list(numbers.c.find({"$text": {"$search": "x"}}))
    assert failure.value.code == 27
    with pytest.raises(OperationFailure) as failure:
        list(numbers.c.aggregate([{"$limit": 1}, {"$match": {"$text": {"$search": "x"}}}]))
    assert failure.value.code == 17313
