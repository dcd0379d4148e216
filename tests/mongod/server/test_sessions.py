"""Logical sessions: started, refreshed, ended, killed, expired."""

import hashlib
import uuid
from typing import Any

import pytest
from bson import Binary, Int64
from bson.binary import UuidRepresentation
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for

HALF_AN_HOUR = 30 * 60


def new_id() -> Document:
    return {"id": Binary.from_uuid(uuid.uuid4(), UuidRepresentation.STANDARD)}


def count(server: RunningServer) -> int:
    return len(server.server.first.sessions)


def test_a_session_that_the_server_starts(client: MongoClient[Document]) -> None:
    started = client.admin.command("startSession")
    assert started["timeoutMinutes"] == 30
    assert started["id"]["id"].subtype == 4
    assert len(started["id"]["id"]) == 16


NO_USER = hashlib.sha256(b"").digest()


def test_a_drivers_sessions_exist_until_the_client_is_closed(own_server: RunningServer) -> None:
    with connected(own_server) as client:
        with client.start_session() as session:
            client.admin.command("listCollections", session=session)
        client.admin.command("listCollections")
        assert count(own_server) == 1
    assert count(own_server) == 0


def test_ending_unknown_sessions(client: MongoClient[Document]) -> None:
    assert client.admin.command({"endSessions": [new_id()]})["ok"] == 1.0
    assert client.admin.command({"endSessions": []})["ok"] == 1.0


def test_unused_sessions_expire(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        kept, forgotten = new_id(), new_id()
        raw.call({"listCollections": 1, "lsid": kept})
        raw.call({"listCollections": 1, "lsid": forgotten})
        own_server.call(own_server.server.advance_clock(HALF_AN_HOUR - 60))
        assert count(own_server) == 2
        raw.call({"refreshSessions": [kept]})
        own_server.call(own_server.server.advance_clock(120))
        assert count(own_server) == 1
        own_server.call(own_server.server.advance_clock(HALF_AN_HOUR))
        assert count(own_server) == 0


def test_the_timeout_can_be_set() -> None:
    with running(parameters={"localLogicalSessionTimeoutMinutes": 1}) as server, connected(server) as client:
        assert client.admin.command("hello")["logicalSessionTimeoutMinutes"] == 1
        assert client.admin.command("startSession")["timeoutMinutes"] == 1
        server.call(server.server.advance_clock(90))
        assert count(server) == 0


@pytest.mark.parametrize("command", ["killSessions", "killAllSessionsByPattern"])
def test_killing_a_session_ends_what_runs_in_it(own_server: RunningServer, command: str) -> None:
    victim, bystander = new_id(), new_id()
    waiting: Document = {"waitForFailPoint": "failCommand", "timesEntered": 1}
    with raw_client(own_server) as raw, raw_client(own_server) as other, raw_client(own_server) as third:
        other.send({**waiting, "lsid": victim})
        third.send({**waiting, "lsid": bystander, "maxTimeMS": 60_000})
        wait_for(lambda: len(own_server.server.first.operations) == 2)
        wanted = victim if command == "killSessions" else {"lsid": {**victim, "uid": NO_USER}}
        assert raw.call({command: [wanted]})["ok"] == 1.0
        assert b"Interrupted" in other.receive().document
        assert len(own_server.server.first.operations) == 1
        assert raw.call({"killAllSessions": [{"user": "me", "db": "admin"}]})["code"] == 11
        assert len(own_server.server.first.operations) == 1
        assert raw.call({"killAllSessions": []})["ok"] == 1.0
        assert b"Interrupted" in third.receive().document


def test_killing_all_sessions_without_naming_one(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        for _ in range(5):
            raw.call({"listCollections": 1, "lsid": new_id()})
        assert count(own_server) == 5
        assert raw.call({"killSessions": []})["ok"] == 1.0
        assert count(own_server) == 0


def test_cursors_end_with_their_session(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    collection = own_client["shop"]["orders"]
    collection.insert_many([{"_id": number} for number in range(10)])
    with own_client.start_session() as session:
        cursor = collection.find(batch_size=2, session=session)
        assert next(cursor)["_id"] == 0
        own_client.admin.command({"killSessions": [session.session_id]})
        with pytest.raises(OperationFailure) as failure:
            list(cursor)
        assert failure.value.code in (43, 237)


@pytest.mark.parametrize("command", ["endSessions", "refreshSessions", "killSessions"])
@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ("all", 14),
        ([1], 14),
        ([{}], 40414),
        ([{"id": 5}], 14),
        ([{"id": Binary(b"x", 4)}], 207),
        ([{**new_id(), "more": 1}], 40415),
        (None, 10065),
    ],
)
def test_wrong_lists_of_sessions(server: RunningServer, command: str, ids: Any, code: int) -> None:
    with raw_client(server) as raw:
        assert raw.call({command: ids})["code"] == code


def test_wrong_patterns(server: RunningServer) -> None:
    with raw_client(server) as raw:
        assert raw.call({"killAllSessions": [{"user": "me"}]})["code"] == 40414
        assert raw.call({"killAllSessions": [1]})["code"] == 14
        assert raw.call({"killAllSessionsByPattern": [1]})["code"] == 14
        assert raw.call({"killAllSessionsByPattern": [{"name": "me"}]})["code"] == 40415


def test_transaction_numbers_need_a_replica_set() -> None:
    numbers: Document = {"lsid": new_id(), "txnNumber": Int64(1)}
    insert: Document = {"insert": "orders", "documents": [{"_id": 1}], "$db": "shop"}
    with running(replica_set=None) as server, raw_client(server) as raw:
        assert raw.call({**insert, **numbers})["code"] == 20
        transaction: Document = {**numbers, "autocommit": False, "startTransaction": True}
        assert raw.call({**insert, **transaction})["code"] == 20
        assert raw.call({**insert, "lsid": numbers["lsid"]})["n"] == 1


def test_statements_under_one_number_wait_for_each_other(server: RunningServer) -> None:
    numbers: Document = {"lsid": new_id(), "txnNumber": Int64(1)}
    insert: Document = {"insert": "waiting", "documents": [{"_id": 1}], "$db": "sessions_test", **numbers}
    with raw_client(server) as raw, raw_client(server) as first, raw_client(server) as second:
        block = {"failCommands": ["insert"], "blockConnection": True, "blockTimeMS": 50}
        raw.call({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": block})
        first.send(insert)
        second.send(insert)
        # Both are the same statement: it is executed once, and both get the same reply.
        assert [b"\x10n\0\1\0\0\0" in one.receive().document for one in (first, second)] == [True, True]
        found = raw.call({"find": "waiting", "$db": "sessions_test"})
        assert found["cursor"]["firstBatch"] == [{"_id": 1}]
