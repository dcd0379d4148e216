"""`count`, and the drivers' ways to count."""

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document

Db = Database[Document]


@pytest.fixture
def ten(database: Db) -> Db:
    database.c.insert_many([{"_id": i, "k": i % 2, "t": "aA"[i % 2]} for i in range(10)])
    return database


def count(database: Db, **command: Any) -> int:
    number: int = database.command({"count": "c", **command})["n"]
    return number


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 10),
        ({"query": {}}, 10),
        ({"query": None}, 10),
        ({"query": {"k": 1}}, 5),
        ({"query": {"_id": 3}}, 1),
        ({"query": {"_id": {"$gt": 3, "$lt": 6}}}, 2),
        ({"limit": 3}, 3),
        ({"limit": -3}, 3),
        ({"limit": 0}, 10),
        ({"skip": 4}, 6),
        ({"skip": 8, "limit": 5}, 2),
        ({"skip": 20}, 0),
        ({"query": {"k": 1}, "skip": 1, "limit": 2}, 2),
        ({"query": {"t": "a"}, "collation": {"locale": "en", "strength": 2}}, 10),
        ({"hint": "_id_"}, 10),
        ({"fields": {"a": 1}}, 10),
    ],
)
def test_counts(ten: Db, options: Document, expected: int) -> None:
    assert count(ten, **options) == expected


def test_nothing_to_count(database: Db) -> None:
    assert count(database) == 0
    assert count(database, query={"a": 1}) == 0


def test_counts_follow_writes(ten: Db) -> None:
    ten.c.delete_many({"k": 1})
    ten.c.insert_one({"_id": "new"})
    ten.c.update_many({}, {"$set": {"k": 7}})
    assert count(ten) == ten.c.estimated_document_count() == ten.c.count_documents({}) == 6


def test_views_are_counted_through_their_pipeline(ten: Db) -> None:
    ten.command({"create": "odd", "viewOn": "c", "pipeline": [{"$match": {"k": 1}}]})
    assert ten.odd.estimated_document_count() == 5
    assert ten.command({"count": "odd", "query": {"_id": {"$gt": 4}}, "limit": 2})["n"] == 2


def test_a_sparse_index_counts_its_documents(ten: Db) -> None:
    ten.c.insert_one({"_id": "without"})
    ten.c.create_index("k", sparse=True)
    assert count(ten, hint={"k": 1}) == 10
    assert count(ten) == 11


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"skip": -1}, 2),
        ({"query": 1}, 14),
        ({"query": {"a": {"$no": 1}}}, 2),
        ({"hint": "none"}, 2),
        ({"hint": 5}, 9),
        ({"nonsense": 1}, 40415),
        ({"limit": "a"}, 2),
    ],
)
def test_refused_counts(ten: Db, options: Document, code: int) -> None:
    with pytest.raises(OperationFailure) as failure:
        count(ten, **options)
    assert failure.value.code == code


def test_count_is_not_for_transactions(client: MongoClient[Document], ten: Db) -> None:
    with client.start_session() as session, session.start_transaction():
        assert ten.c.count_documents({"k": 1}, session=session) == 5
        with pytest.raises(OperationFailure) as failure:
            ten.command({"count": "c"}, session=session)
        assert failure.value.code == 263
