"""Retryable writes: a repeated command returns its first result and writes nothing.

The commands are sent as a driver sends them after it lost the reply: same session, same number.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document, RunningServer, connected, running
from tests.mongod.server.writing import entries_of


class Retrying:
    """Sends commands in its own session, under numbers that the test chooses."""

    def __init__(self, database: Database[Document], session: ClientSession) -> None:
        self.database = database
        self._session = session

    @property
    def session_id(self) -> Binary:
        return Binary(self._session.session_id["id"], 4)

    def send(self, number: int, command: Document, *, on: str | None = None) -> Document:
        """The reply to a command under this number."""
        database = self.database if on is None else self.database.client[on]
        reply = database.command({**command, "txnNumber": Int64(number)}, session=self._session)
        return {name: value for name, value in reply.items() if name not in ("$clusterTime", "operationTime")}

    def insert(self, number: int, *ids: int, **fields: Any) -> Document:
        return self.send(number, {"insert": "things", "documents": [{"_id": n} for n in ids], **fields})

    def update(self, number: int, *updates: Document, **fields: Any) -> Document:
        return self.send(number, {"update": "things", "updates": list(updates), **fields})

    def delete(self, number: int, *ids: int) -> Document:
        deletes = [{"q": {"_id": n}, "limit": 1} for n in ids]
        return self.send(number, {"delete": "things", "deletes": deletes})

    def modify(self, number: int, **fields: Any) -> Document:
        return self.send(number, {"findAndModify": "things", **fields})


@pytest.fixture
def retrying(server: RunningServer, database: Database[Document]) -> Iterator[Retrying]:
    # Its own client: the shared one's pool would reuse the session with its numbers.
    with connected(server) as client, client.start_session() as session:
        yield Retrying(client[database.name], session)


def test_an_insert_is_not_executed_twice(retrying: Retrying) -> None:
    first = retrying.insert(1, 1, 2, 3)
    written = entries_of(retrying.database)
    assert first == {"n": 3, "ok": 1.0}
    assert retrying.insert(1, 1, 2, 3) == {"n": 3, "retriedStmtIds": [0, 1, 2], "ok": 1.0}
    assert entries_of(retrying.database) == written
    assert retrying.database.things.count_documents({}) == 3


def test_statements_that_were_not_executed_are_executed(retrying: Retrying) -> None:
    retrying.insert(1, 1, 2)
    again = retrying.insert(1, 1, 2, 3)
    assert (again["n"], again["retriedStmtIds"]) == (3, [0, 1])
    last = entries_of(retrying.database)[-1]
    assert (last["o"], last["stmtId"]) == ({"_id": 3}, 2)
    assert last["prevOpTime"]["ts"] == entries_of(retrying.database)[-2]["ts"]


def test_statements_are_identified_by_their_ids(retrying: Retrying) -> None:
    retrying.insert(1, 1, 2, stmtIds=[7, 9])
    assert retrying.insert(1, 2, stmtId=9)["retriedStmtIds"] == [9]
    with pytest.raises(OperationFailure) as failure:
        retrying.insert(1, 5, stmtIds=[1, 2])
    assert failure.value.code == 16
    with pytest.raises(OperationFailure) as failure:
        retrying.insert(1, 5, stmtId=1, stmtIds=[1])
    assert failure.value.code == 72


def test_a_new_number_is_a_new_command(retrying: Retrying) -> None:
    retrying.insert(1, 1)
    (error,) = retrying.insert(2, 1)["writeErrors"]
    assert error["code"] == 11000
    retrying.insert(3, 2)
    with pytest.raises(OperationFailure) as failure:
        retrying.insert(2, 5)
    assert failure.value.code == 225


def test_entries_of_one_number_are_chained(retrying: Retrying) -> None:
    retrying.insert(4, 1)
    change = {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}}
    retrying.update(5, change, change)
    _, insert, first, second = entries_of(retrying.database)
    nothing = {"ts": Timestamp(0, 0), "t": -1}
    assert [entry["prevOpTime"] for entry in (insert, first)] == [nothing, nothing]
    assert second["prevOpTime"] == {"ts": first["ts"], "t": first["t"]}
    assert (first["stmtId"], second["stmtId"]) == (0, 1)
    assert [entry["txnNumber"] for entry in (insert, first, second)] == [4, 5, 5]


def test_an_update_returns_its_first_result(retrying: Retrying) -> None:
    retrying.insert(1, 1)
    updates = [
        {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}},
        {"q": {"_id": 7}, "u": {"$inc": {"a": 1}}, "upsert": True},
        {"q": {"_id": 9}, "u": {"$inc": {"a": 1}}},
    ]
    first = retrying.update(2, *updates)
    assert first == {"n": 2, "upserted": [{"index": 1, "_id": 7}], "nModified": 1, "ok": 1.0}
    written = entries_of(retrying.database)
    assert retrying.update(2, *updates) == {**first, "retriedStmtIds": [0, 1]}
    assert entries_of(retrying.database) == written
    assert list(retrying.database.things.find()) == [{"_id": 1, "a": 1}, {"_id": 7, "a": 1}]


def test_an_update_that_changed_nothing_is_executed_again(retrying: Retrying) -> None:
    retrying.insert(1, 1)
    nothing = {"q": {"_id": 1}, "u": {"$unset": {"a": ""}}}
    assert retrying.update(2, nothing) == retrying.update(2, nothing) == {"n": 1, "nModified": 0, "ok": 1.0}


def test_a_delete_is_not_executed_twice(retrying: Retrying) -> None:
    retrying.insert(1, 1, 2)
    assert retrying.delete(2, 1, 9) == {"n": 1, "ok": 1.0}
    retrying.database.things.insert_one({"_id": 1, "again": True})
    assert retrying.delete(2, 1, 9) == {"n": 1, "retriedStmtIds": [0], "ok": 1.0}
    assert retrying.database.things.count_documents({}) == 2


def test_many_documents_cannot_be_retried(retrying: Retrying) -> None:
    """The statement fails; those before it, and without an order those after it, are executed."""
    retrying.insert(1, 1, 2, 3)
    one: Document = {"q": {"_id": 1}, "u": {"$set": {"a": 1}}}
    many: Document = {"q": {}, "u": {"$set": {"b": 1}}, "multi": True}
    update = {"update": "things", "updates": [one, many, {**one, "q": {"_id": 2}}]}
    for number, ordered, changed in ((2, True, 1), (3, False, 1)):
        reply = retrying.send(number, {**update, "ordered": ordered})
        assert (reply["nModified"], reply["writeErrors"][0]["code"]) == (changed, 72)
        assert reply["writeErrors"][0]["index"] == 1
    delete = {"delete": "things", "deletes": [{"q": {"_id": 1}, "limit": 1}, {"q": {}, "limit": 0}]}
    reply = retrying.send(4, delete)
    assert (reply["n"], reply["writeErrors"][0]["code"]) == (1, 72)
    namespaces = [{"ns": f"{retrying.database.name}.things"}]
    bulk = {
        "bulkWrite": 1,
        "ops": [{"delete": 0, "filter": {}, "multi": True}],
        "nsInfo": namespaces,
    }
    with pytest.raises(OperationFailure) as failure:
        retrying.send(5, bulk, on="admin")
    assert failure.value.code == 72


def test_the_reply_names_retried_statements_before_upserts(retrying: Retrying) -> None:
    upsert = {"q": {"_id": 1}, "u": {"$set": {"a": 1}}, "upsert": True}
    command = {"update": "things", "updates": [upsert, {"q": {"_id": 1}, "u": {"$inc": {"a": "x"}}}]}
    retrying.send(1, command)
    again = list(retrying.send(1, command))
    assert again[:5] == ["n", "writeErrors", "retriedStmtIds", "upserted", "nModified"]


def test_an_update_cannot_repeat_a_delete(retrying: Retrying) -> None:
    retrying.insert(1, 1)
    retrying.send(2, {"delete": "things", "deletes": [{"q": {"_id": 1}, "limit": 1}]})
    with pytest.raises(OperationFailure) as failure:
        retrying.send(2, {"update": "things", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]})
    assert failure.value.code == 40638


@pytest.mark.parametrize(("returns_new", "image"), [(False, "preImage"), (True, "postImage")])
def test_find_and_modify_returns_the_same_document(retrying: Retrying, returns_new: bool, image: str) -> None:
    retrying.insert(1, 1)
    command: Document = {"query": {"_id": 1}, "update": {"$inc": {"a": 1}}, "new": returns_new}
    first = retrying.modify(2, **command)
    retrying.database.things.update_one({"_id": 1}, {"$set": {"later": True}})
    again = retrying.modify(2, **command)
    assert again == {**first, "retriedStmtId": 0}
    assert first["value"] == ({"_id": 1, "a": 1} if returns_new else {"_id": 1})
    (entry,) = [entry for entry in entries_of(retrying.database) if "needsRetryImage" in entry]
    assert entry["needsRetryImage"] == image
    kept = retrying.database.client.config.image_collection.find_one({"ts": entry["ts"]})
    assert kept is not None
    assert (kept["imageKind"], kept["image"], kept["txnNum"]) == (image, first["value"], 2)


def test_find_and_modify_that_removes_or_inserts(retrying: Retrying) -> None:
    retrying.insert(1, 1)
    removed = retrying.modify(2, query={"_id": 1}, remove=True)
    assert retrying.modify(2, query={"_id": 1}, remove=True) == {**removed, "retriedStmtId": 0}
    assert removed["value"] == {"_id": 1}
    for number, returns_new in ((3, True), (4, False)):
        command: Document = {
            "query": {"_id": number},
            "update": {"$set": {"a": 1}},
            "upsert": True,
            "new": returns_new,
        }
        first = retrying.modify(number, **command)
        assert first["value"] == ({"_id": number, "a": 1} if returns_new else None)
        assert retrying.modify(number, **command) == {**first, "retriedStmtId": 0}


def test_find_and_modify_must_be_the_same_command(retrying: Retrying) -> None:
    retrying.insert(1, 1)
    update: Document = {"query": {"_id": 1}, "update": {"$inc": {"a": 1}}}
    retrying.modify(2, **update, fields={"b": 1})
    # A server compares neither the kind of image nor the projection.
    assert retrying.modify(2, **update, new=True)["value"] == {"_id": 1}

    def check(number: int, code: int, **fields: object) -> None:
        with pytest.raises(OperationFailure) as failure:
            retrying.modify(number, **update, **fields)
        assert failure.value.code == code

    retrying.update(3, {"q": {"_id": 1}, "u": {"$inc": {"a": 1}}})
    check(3, 40612)
    check(3, 40611, new=True)
    retrying.modify(4, query={"_id": 9}, update={"$inc": {"a": 1}}, upsert=True)
    check(4, 40608)
    retrying.modify(5, query={"_id": 1}, remove=True)
    check(5, 40606)


def test_bulk_write_is_not_executed_twice(retrying: Retrying) -> None:
    name = retrying.database.name
    command: Document = {
        "bulkWrite": 1,
        "ops": [
            {"insert": 0, "document": {"_id": 1}},
            {"insert": 1, "document": {"_id": 2}},
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"a": 1}}},
            {"delete": 1, "filter": {"_id": 2}},
        ],
        "nsInfo": [{"ns": f"{name}.a"}, {"ns": f"{name}.b"}],
    }
    first = retrying.send(1, command, on="admin")
    written = entries_of(retrying.database)
    again = retrying.send(1, command, on="admin")
    assert again == {**first, "retriedStmtIds": [0, 1, 2, 3]}
    assert (first["nInserted"], first["nModified"], first["nDeleted"]) == (2, 1, 1)
    assert entries_of(retrying.database) == written


def test_a_truncated_history_is_an_error(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    with own_client.start_session() as session:
        retrying = Retrying(own_client.shop, session)
        retrying.insert(1, 1, 2)
        store = own_server.server.store
        own_server.call(store.write(store.truncate_oplog(store.clock.now + 1)))
        with pytest.raises(OperationFailure) as failure:
            retrying.insert(1, 1, 2)
    assert failure.value.code == 217
    assert own_client.shop.things.count_documents({}) == 2


def test_the_history_is_kept_over_a_restart(tmp_path: Path) -> None:

    command: Document = {"query": {"_id": 1}, "update": {"$inc": {"a": 1}}}
    with running(data=tmp_path / "data") as server:
        port = server.server.port
        client: MongoClient[Document] = MongoClient(server.uri)
        session = client.start_session()
        retrying = Retrying(client.shop, session)
        retrying.insert(1, 1)
        found = retrying.modify(2, **command)
    with running(data=tmp_path / "data", port=port), client, session:
        assert retrying.modify(2, **command) == {**found, "retriedStmtId": 0}
        assert client.shop.things.find_one() == {"_id": 1, "a": 1}


def test_the_sessions_record_names_the_last_write(retrying: Retrying) -> None:
    retrying.insert(1, 1)
    retrying.insert(3, 2)
    last = entries_of(retrying.database)[-1]
    record = retrying.database.client.config.transactions.find_one({"_id.id": retrying.session_id})
    assert record is not None
    assert record["txnNum"] == 3
    assert record["lastWriteOpTime"] == {"ts": last["ts"], "t": last["t"]}


def test_a_driver_retries_after_a_lost_connection(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    database.things.insert_one({"_id": 1, "n": 0})
    client.admin.command(
        "configureFailPoint",
        "failCommand",
        mode={"times": 1},
        data={"failCommands": ["update"], "closeConnection": True},
    )
    assert database.things.update_one({"_id": 1}, {"$inc": {"n": 1}}).modified_count == 1
    assert database.things.find_one() == {"_id": 1, "n": 1}


def test_a_write_that_changes_nothing_is_not_recorded(retrying: Retrying) -> None:
    records = retrying.database.client.config.transactions
    assert retrying.update(1, {"q": {"_id": 1}, "u": {"$set": {"a": 1}}})["n"] == 0
    assert retrying.delete(2, 1)["n"] == 0
    assert records.find_one({"_id.id": retrying.session_id}) is None
    retrying.insert(3, 1)
    recorded = records.find_one({"_id.id": retrying.session_id})
    assert retrying.insert(3, 1)["n"] == 1
    assert records.find_one({"_id.id": retrying.session_id}) == recorded
