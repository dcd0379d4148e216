"""`distinct`: every value once."""

from typing import Any

import pytest
from bson import Decimal128, Int64
from pymongo import IndexModel, MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document

Db = Database[Document]


def test_values_come_once_and_sorted(database: Db) -> None:
    database.c.insert_many([{"a": value} for value in [3, "x", 3, None, 1, "x", True, {"b": 1}, {"b": 1}]])
    assert database.c.distinct("a") == [None, 1, 3, "x", {"b": 1}, True]


def test_equal_numbers_are_one_value(database: Db) -> None:
    database.c.insert_many([{"a": value} for value in [1, 1.0, Int64(1), Decimal128("1"), 2]])
    assert database.c.distinct("a") == [1, 2]


def test_arrays_count_as_their_elements(database: Db) -> None:
    database.c.insert_many([{"a": [1, 2]}, {"a": 2}, {"a": []}, {"a": [[1, 2], 3]}, {"b": 1}])
    assert database.c.distinct("a") == [1, 2, 3, [1, 2]]


def test_paths_through_documents_and_arrays(database: Db) -> None:
    database.c.insert_many([{"a": {"b": 1}}, {"a": [{"b": 2}, {"b": [3, 4]}, 5]}, {"a": 7}])
    assert database.c.distinct("a.b") == [1, 2, 3, 4]
    assert database.c.distinct("a.0.b") == [2]


def test_filters_and_indexes(database: Db) -> None:
    database.c.insert_many([{"_id": i, "k": i % 3} for i in range(9)])
    database.c.create_index("k")
    assert database.c.distinct("_id", {"k": 1}) == [1, 4, 7]
    assert database.c.distinct("k", {"_id": {"$lt": 2}}) == [0, 1]
    assert database.c.distinct("k", hint="k_1") == [0, 1, 2]


def test_an_index_stores_missing_values_as_null(database: Db) -> None:
    database.c.insert_many([{"a": 1}, {}])
    assert database.c.distinct("a") == [1]
    database.c.create_index("a")
    assert database.c.distinct("a") == [None, 1]
    assert database.c.distinct("a", {"a": {"$gt": 0}}) == [1]
    assert database.c.distinct("a", {"a": {"$ne": 5}}) == [None, 1]
    assert database.c.distinct("a", {"a": {"$in": [1, None]}}) == [1]


def test_an_index_with_arrays_stores_their_elements(database: Db) -> None:
    documents: list[Document] = [
        {"a": 1}, {"a": [3, 4]}, {"a": []}, {"a": [[1, 2], []]}, {"b": [{"c": 1}, {"c": [2, 3]}, {}]},
        {"b": {"c": []}}, {"b": []},
    ]  # fmt: skip
    database.c.insert_many(documents)
    assert database.c.distinct("a") == [1, 3, 4, [], [1, 2]]
    assert database.c.distinct("b.c") == [1, 2, 3]
    database.c.create_indexes([IndexModel("a"), IndexModel("b.c")])
    # PyMongo reads the type undefined, which an empty array has in an index, as None.
    assert database.c.distinct("a") == [None, None, 1, 2, 3, 4]
    assert database.c.distinct("b.c") == [None, None, 1, 2, 3]
    assert database.c.distinct("a", {"a": {"$exists": True}}) == [1, 3, 4, [], [1, 2]]
    assert database.c.distinct("a.0") == [1, 2, 3]


def test_collations(database: Db) -> None:
    database.c.insert_many([{"a": "x"}, {"a": "X"}, {"a": "y"}])
    assert database.c.distinct("a", collation={"locale": "en", "strength": 2}) == ["x", "y"]
    assert database.c.distinct("a") == ["X", "x", "y"]


def test_views_and_missing_collections(database: Db) -> None:
    assert database.c.distinct("a") == []
    database.c.insert_many([{"a": n} for n in range(4)])
    database.command({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"a": {"$gt": 1}}}]})
    assert database.v.distinct("a") == [2, 3]


def test_in_a_transaction(client: MongoClient[Document], database: Db) -> None:
    database.c.insert_one({"a": 1})
    with client.start_session() as session, session.start_transaction():
        database.c.insert_one({"a": 2}, session=session)
        assert database.c.distinct("a", session=session) == [1, 2]
        assert database.c.distinct("a") == [1]


def test_values_that_do_not_fit_into_a_reply(database: Db) -> None:
    database.c.insert_many([{"a": f"{n}" + "x" * 3_000_000} for n in range(6)])
    with pytest.raises(OperationFailure) as failure:
        database.c.distinct("a")
    assert failure.value.code == 17217


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, 40414),
        ({"key": 1}, 14),
        ({"key": "a", "query": []}, 14),
        ({"key": "a", "hint": "none"}, 2),
        ({"key": "a", "more": 1}, 40415),
        ({"key": "a", "collation": {"locale": "nowhere"}}, 2),
    ],
)
def test_refused_commands(database: Db, options: dict[str, Any], code: int) -> None:
    database.c.insert_one({"a": 1})
    with pytest.raises(OperationFailure) as failure:
        database.command({"distinct": "c", **options})
    assert failure.value.code == code
