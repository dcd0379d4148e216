"""Transactions beside the real server: statements, errors in them, and their ends."""

import pytest
from bson import Int64

from tests.oracle.comparison import Document
from tests.oracle.test_writes import new_session
from tests.oracle.twins import Pair, Twins
from tests.oracle.writing import Writer


class Session:
    """Runs the statements of transactions, one after another, on both servers."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.lsid = new_session()
        self.number = 0
        self._starts = False

    def begin(self) -> None:
        self.number += 1
        self._starts = True

    def run(self, command: Document, database: str = "test") -> Pair:
        fields: Document = {"lsid": self.lsid, "txnNumber": Int64(self.number), "autocommit": False}
        if self._starts:
            fields["startTransaction"] = True
            self._starts = False
        return self._writer.run_pair({**command, **fields}, database)

    def end(self, name: str, **fields: object) -> None:
        self.run({name: 1, **fields}, "admin")


def update(number: int) -> Document:
    return {"update": "items", "updates": [{"q": {"_id": number}, "u": {"$inc": {"a": 1}}}]}


@pytest.fixture
def writer(twins: Twins) -> Writer:
    twins.run({"create": "capped", "capped": True, "size": 4096})
    twins.run({"drop": "items"})
    twins.run({"insert": "items", "documents": [{"_id": n, "a": n} for n in range(12)]})
    return Writer(twins, "items")


@pytest.mark.parametrize("end", ["commitTransaction", "abortTransaction"])
def test_statements_and_ends(writer: Writer, end: str) -> None:
    session = Session(writer)
    session.begin()
    session.run({"insert": "items", "documents": [{"_id": 100}, {"_id": 101}]})
    session.run(update(1))
    session.run({"update": "items", "updates": [{"q": {"_id": 2}, "u": {"b": 5}}]})
    session.run({"update": "items", "updates": [{"q": {"_id": 50}, "u": {"$set": {"b": 5}}, "upsert": True}]})
    session.run(
        {"update": "items", "updates": [{"q": {"a": {"$gt": 8}}, "u": {"$inc": {"a": 1}}, "multi": True}]}
    )
    session.run({"update": "items", "updates": [{"q": {"_id": 3}, "u": [{"$set": {"x": "$a"}}]}]})
    session.run({"update": "items", "updates": [{"q": {"_id": 4}, "u": {"$set": {"a": 4}}}]})
    session.run({"delete": "items", "deletes": [{"q": {"_id": 5}, "limit": 1}]})
    session.run({"findAndModify": "items", "query": {"_id": 6}, "update": {"$inc": {"a": 1}}, "new": True})
    session.run({"findAndModify": "items", "query": {"_id": 7}, "remove": True})
    session.run({"insert": "other", "documents": [{"_id": 1}]}, "elsewhere")
    session.run({"find": "items", "batchSize": 3})
    session.run({"aggregate": "items", "pipeline": [{"$count": "n"}], "cursor": {}})
    session.run({"distinct": "items", "key": "a"})
    for name in (end, end, "commitTransaction", "abortTransaction"):
        session.end(name)
    session.run({"find": "items"})
    for name in ("commitTransaction", "abortTransaction"):
        session.begin()
        session.end(name)
    session.begin()
    session.run({"find": "items", "filter": {"_id": 1}})
    session.end("commitTransaction", writeConcern={"w": "majority"})
    session.end("commitTransaction", writeConcern={"w": 2})
    writer.finish()


@pytest.mark.parametrize(
    "command",
    [
        {"insert": "items", "documents": [{"_id": 1}]},
        {"insert": "items", "documents": [{"_id": 1}, {"_id": 300}], "ordered": False},
        {"insert": "items", "documents": []},
        {"insert": "items", "documents": [{"_id": 1}], "writeConcern": {"w": 1}},
        {"insert": "capped", "documents": [{}]},
        {"insert": "system.foo", "documents": [{}]},
        {"insert": "a$b", "documents": [{}]},
        {"update": "items", "updates": [{"q": {"_id": 1}, "u": {"$foo": 1}}]},
        {"update": "items", "updates": [{"q": {"_id": 1}, "u": 1}]},
        {"update": "nope", "updates": [{"q": {"_id": 1}, "u": {"$foo": 1}, "upsert": True}]},
        {"delete": "capped", "deletes": [{"q": {}, "limit": 1}]},
        {"findAndModify": "items", "query": {"_id": 1}, "update": {"$foo": 1}},
        {"findAndModify": "items", "query": {"_id": 1}},
        {"find": "items", "filter": {"$foo": 1}},
        {"find": "items", "unknown": 1},
        {"find": "items", "readConcern": {"level": "snapshot"}, "limit": 1},
        {"aggregate": "items", "pipeline": [{"$out": "o"}], "cursor": {}},
        {"aggregate": "items", "pipeline": [{"$merge": "o"}], "cursor": {}},
        {"aggregate": "items", "pipeline": [{"$foo": "o"}], "cursor": {}},
        {"aggregate": "items", "pipeline": [{"$changeStream": {}}], "cursor": {}},
        {"aggregate": "items", "pipeline": [{"$indexStats": {}}], "cursor": {}},
        {"count": "items"},
        {"drop": "items"},
        {"listCollections": 1},
        {"collMod": "items"},
        {"getMore": Int64(123), "collection": "items"},
        {"killCursors": "items", "cursors": [Int64(5)]},
        {"ping": 1},
        {"foo": 1},
    ],
    ids=str,
)
def test_failing_statements(writer: Writer, command: Document) -> None:
    session = Session(writer)
    for is_first in (True, False):
        session.begin()
        if not is_first:
            session.run(update(1))
        session.run(command)
        session.run({"find": "items", "filter": {"_id": 1}})
        session.end("commitTransaction")
        session.end("abortTransaction")
    writer.finish()


def test_numbers(writer: Writer) -> None:
    lsid = new_session()
    insert = {"insert": "items", "documents": [{"_id": 200}]}

    def number(value: int, **fields: object) -> Document:
        return {"lsid": lsid, "txnNumber": Int64(value), **fields}

    opened = {"autocommit": False, "startTransaction": True}
    for command in (
        {"find": "items", **number(1, autocommit=True)},
        {"find": "items", **number(1, startTransaction=True)},
        {"find": "items", **number(1, autocommit=False, startTransaction=False)},
        {"find": "items", **number(1, autocommit=False)},
        {"find": "items", "lsid": lsid, **opened},
        {"find": "items", "autocommit": False},
        {**insert, **number(5), **opened},
        {**insert, **number(5), **opened},
        {**insert, **number(4)},
        {**insert, **number(5)},
        {**insert, **number(6, autocommit=False)},
    ):
        writer.run(command)
    for value in (5, 6, 5):
        writer.run({"commitTransaction": 1, **number(value, autocommit=False)}, database="admin")
        writer.run({"commitTransaction": 1, **number(value)}, database="admin")
    writer.run({"commitTransaction": 1}, database="admin")
    writer.run({**insert, **number(5)})
    writer.run({**insert, **number(5, autocommit=False)})
    writer.run({"abortTransaction": 1, **number(99, autocommit=False)}, database="admin")
    writer.finish()


def test_conflicts(writer: Writer) -> None:
    one, two = Session(writer), Session(writer)
    one.begin()
    two.begin()
    one.run(update(1))
    two.run(update(1))
    two.run({"find": "items", "filter": {"_id": 2}})
    one.end("commitTransaction")
    two.end("commitTransaction")
    two.end("abortTransaction")
    one.begin()
    one.run({"find": "items", "filter": {"_id": 1}})
    writer.run(update(1))
    one.run(update(1))
    one.end("commitTransaction")
    one.begin()
    one.run({"find": "items", "filter": {"_id": 1}})
    writer.run({"insert": "items", "documents": [{"_id": 77}]})
    one.run({"find": "items", "filter": {"_id": 77}})
    one.run({"insert": "items", "documents": [{"_id": 77}]})
    one.end("commitTransaction")
    writer.finish()


def test_cursors(writer: Writer) -> None:
    session = Session(writer)
    outside = writer.twins.remember(
        "outside", writer.run_pair({"find": "items", "batchSize": 2}), ["cursor", "id"]
    )
    session.begin()
    session.run({"getMore": outside, "collection": "items"})
    session.run({"find": "items"})
    session.begin()
    opened = session.run({"find": "items", "batchSize": 2})
    inside = writer.twins.remember("inside", opened, ["cursor", "id"])
    writer.run({"getMore": inside, "collection": "items"})
    session.run({"getMore": outside, "collection": "items"})
    session.run({"getMore": inside, "collection": "items", "batchSize": 2})
    session.end("commitTransaction")
    writer.finish()


def test_collections_and_indexes(writer: Writer) -> None:
    session = Session(writer)
    session.begin()
    session.run({"insert": "made", "documents": [{"_id": 1}]})
    session.run({"create": "made2"})
    session.run({"createIndexes": "made2", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    session.run({"createIndexes": "made2", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    session.run({"createIndexes": "made2", "indexes": [{"key": {"b": 1}, "name": "b_1"}]})
    session.run({"insert": "made2", "documents": [{"_id": 1, "a": 1}]})
    session.end("commitTransaction")
    session.begin()
    session.run({"createIndexes": "made", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
    session.end("commitTransaction")
    writer.finish()
