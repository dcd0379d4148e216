"""Streams, cursors and sessions belong to their user, who needs the rights all the time."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from bson import Binary, Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.mongod.server.access.conftest import ROOT
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.raw_login import log_in
from tests.mongod.server.running import Document, RunningServer, wait_for

Client = MongoClient[Document]
STREAM: list[Document] = [{"$changeStream": {}}]


@pytest.fixture
def watcher(root: Client, place: str) -> str:
    """The name of a user, and of the role that lets this user watch."""
    name = f"watcher_of_{place}"
    privileges = [{"resource": {"db": place, "collection": ""}, "actions": ["find", "changeStream"]}]
    root.admin.command("createRole", name, privileges=privileges, roles=[])
    root.admin.command("createUser", name, pwd="p", roles=[name])
    return name


def opened(raw: RawClient, place: str, named: Any) -> int:
    reply = raw.call({"aggregate": named, "pipeline": STREAM, "cursor": {}, "$db": place})
    assert reply["ok"], reply
    return int(reply["cursor"]["id"])


def more(raw: RawClient, place: str, cursor_id: int, named: Any, wait_ms: int = 50) -> Document:
    collection = named if isinstance(named, str) else "$cmd.aggregate"
    command = {"getMore": Int64(cursor_id), "collection": collection, "maxTimeMS": wait_ms, "$db": place}
    return raw.call(command)


@pytest.mark.parametrize("named", ["orders", 1])
@pytest.mark.parametrize("lost", ["find", "changeStream"])
def test_the_next_get_more_fails_after_a_right_was_lost(
    guarded: RunningServer, root: Client, place: str, watcher: str, named: Any, lost: str
) -> None:
    with raw_client(guarded) as raw:
        assert log_in(raw, watcher, "p")["ok"]
        cursor_id = opened(raw, place, named)
        root[place].orders.insert_one({"n": 1})
        assert len(more(raw, place, cursor_id, named)["cursor"]["nextBatch"]) == 1
        resource = {"db": place, "collection": ""}
        root.admin.command(
            "revokePrivilegesFromRole", watcher, privileges=[{"resource": resource, "actions": [lost]}]
        )
        root[place].orders.insert_one({"n": 2})
        reply = more(raw, place, cursor_id, named)
        assert (reply["code"], reply["codeName"]) == (13, "Unauthorized")
        assert "n" not in str(reply.get("cursor", ""))


def test_a_get_more_that_waits_fails_at_once(
    guarded: RunningServer, root: Client, place: str, watcher: str
) -> None:
    with raw_client(guarded) as raw:
        assert log_in(raw, watcher, "p")["ok"]
        cursor_id = opened(raw, place, "orders")
        replies: list[Document] = []
        waiting = threading.Thread(
            target=lambda: replies.append(more(raw, place, cursor_id, "orders", 60_000))
        )
        waiting.start()
        operation = {"op": "getmore", "effectiveUsers.user": watcher}
        wait_for(lambda: bool(root.admin.command({"currentOp": 1, **operation})["inprog"]))
        root.admin.command("revokeRolesFromUser", watcher, roles=[watcher])
        waiting.join(10)
    assert [(reply["code"], reply["codeName"]) for reply in replies] == [(13, "Unauthorized")]


def test_a_removed_user_has_no_stream(guarded: RunningServer, root: Client, place: str, watcher: str) -> None:
    with raw_client(guarded) as raw:
        assert log_in(raw, watcher, "p")["ok"]
        cursor_id = opened(raw, place, "orders")
        root.admin.command("dropUser", watcher)
        assert more(raw, place, cursor_id, "orders")["code"] == 13
        root.admin.command("createUser", watcher, pwd="p", roles=[watcher])
        assert more(raw, place, cursor_id, "orders")["code"] == 13  # another user of the same name


def test_a_driver_does_not_resume_after_13(root: Client, as_user: Callable[..., Client], place: str) -> None:
    client = as_user(["read"], place)
    with client[place].orders.watch(max_await_time_ms=50) as stream:
        assert stream.try_next() is None
        root[place].command("dropAllUsersFromDatabase")
        with pytest.raises(OperationFailure) as failure:
            stream.try_next()
    assert failure.value.code == 13


def test_rights_on_one_collection_give_no_stream_of_more(
    root: Client, as_user: Callable[..., Client], place: str
) -> None:
    orders = {"db": place, "collection": "orders"}
    actions = ["find", "changeStream"]
    root.admin.command("createRole", place, privileges=[{"resource": orders, "actions": actions}], roles=[])
    client = as_user([place])
    with client[place].orders.watch():
        pass
    for opening in (client[place].watch, client.watch, client[place].other.watch):
        with pytest.raises(OperationFailure) as failure:
            opening()
        assert failure.value.code == 13


def test_a_cursor_belongs_to_its_user(guarded: RunningServer, root: Client, place: str, watcher: str) -> None:
    root[place].orders.insert_many([{} for _ in range(5)])
    with raw_client(guarded) as raw, raw_client(guarded) as other:
        assert log_in(raw, watcher, "p")["ok"]
        assert log_in(other, *ROOT)["ok"]
        reply = raw.call({"find": "orders", "batchSize": 1, "$db": place})
        cursor_id = Int64(reply["cursor"]["id"])
        get_more = {"getMore": cursor_id, "collection": "orders", "batchSize": 1, "$db": place}
        assert other.call(get_more)["code"] == 13
        assert raw.call(get_more)["ok"] == 1
        # An administrator may end it, another user may not.
        root.admin.command("createUser", f"{watcher}_2", pwd="p", roles=[watcher])
        with raw_client(guarded) as third:
            assert log_in(third, f"{watcher}_2", "p")["ok"]
            assert third.call({"killCursors": "orders", "cursors": [cursor_id], "$db": place})["code"] == 13
        assert raw.call(get_more)["ok"] == 1
        assert other.call({"killCursors": "orders", "cursors": [cursor_id], "$db": place})["ok"] == 1
        assert raw.call(get_more)["code"] == 43


def test_sessions_of_two_users_with_the_same_id(
    guarded: RunningServer, root: Client, place: str, watcher: str
) -> None:
    root.admin.command("grantRolesToUser", watcher, roles=[{"role": "readWrite", "db": place}])
    session = {"lsid": {"id": Binary(b"same id for both", 4)}, "txnNumber": Int64(1), "autocommit": False}
    insert = {"insert": "orders", "documents": [{"x": 1}], "$db": place, **session}
    with raw_client(guarded) as raw, raw_client(guarded) as other:
        assert log_in(raw, watcher, "p")["ok"]
        assert log_in(other, *ROOT)["ok"]
        assert raw.call({**insert, "startTransaction": True})["ok"] == 1
        commit = {"commitTransaction": 1, "$db": "admin", **session}
        assert other.call(commit)["code"] == 251  # its own session has no such transaction
        assert raw.call(commit)["ok"] == 1
        impersonated = {"id": Binary(b"same id for both", 4), "uid": Binary(b"u" * 32)}
        assert raw.call({"find": "orders", "lsid": impersonated, "$db": place})["code"] == 13


def test_a_user_sees_the_own_operations_only(
    root: Client, as_user: Callable[..., Client], place: str
) -> None:
    client = as_user(["read"], place)
    own = client.admin.aggregate([{"$currentOp": {"idleConnections": True}}]).to_list()
    users = {user["user"] for operation in own for user in operation["effectiveUsers"]}
    assert len(users) == 1
    assert users != {"root"}
    with pytest.raises(OperationFailure) as failure:
        client.admin.aggregate([{"$currentOp": {"allUsers": True}}])
    assert failure.value.code == 13
    shown = root.admin.aggregate([{"$currentOp": {"allUsers": True, "idleConnections": True}}]).to_list()
    assert users < {user["user"] for operation in shown for user in operation.get("effectiveUsers", ())}


def test_views_need_the_right_to_the_view_only(
    root: Client, as_user: Callable[..., Client], place: str
) -> None:
    root[place].create_collection("open", viewOn="orders", pipeline=[{"$project": {"_id": 1}}])
    resource = {"db": place, "collection": "open"}
    privileges = [{"resource": resource, "actions": ["find"]}]
    root.admin.command("createRole", place, privileges=privileges, roles=[])
    client = as_user([place])
    assert client[place].open.find_one() == {"_id": 1}
    with pytest.raises(OperationFailure) as failure:
        client[place].orders.find_one()
    assert failure.value.code == 13


def test_killed_sessions_of_a_user(guarded: RunningServer, root: Client, place: str, watcher: str) -> None:
    with raw_client(guarded) as raw:
        assert log_in(raw, watcher, "p")["ok"]
        lsid = {"id": Binary(b"1234567890123456", 4)}
        stream = {"aggregate": "orders", "pipeline": STREAM, "cursor": {}, "lsid": lsid, "$db": place}
        cursor_id = Int64(raw.call(stream)["cursor"]["id"])
        assert raw.call({"killAllSessions": [], "$db": "admin"})["code"] == 13
        root.admin.command("killAllSessions", [{"user": watcher, "db": "admin"}])
        get_more = {"getMore": cursor_id, "collection": "orders", "lsid": lsid, "$db": place}
        assert raw.call(get_more)["code"] == 43


@pytest.mark.parametrize("number", [0, Int64(0), 0.0])
@pytest.mark.parametrize(
    "statement",
    [
        {"insert": None, "document": {"_id": "x"}},
        {"update": None, "filter": {}, "updateMods": {"$set": {"a": 1}}},
        {"delete": None, "filter": {}},
    ],
    ids=["insert", "update", "delete"],
)
def test_a_bulk_write_without_rights(
    guarded: RunningServer, place: str, watcher: str, statement: Document, number: Any
) -> None:
    kind = next(iter(statement))
    command = {"bulkWrite": 1, "ops": [{**statement, kind: number}], "nsInfo": [{"ns": f"{place}.orders"}]}
    with raw_client(guarded) as raw:
        assert log_in(raw, watcher, "p")["ok"]
        reply = raw.call({**command, "$db": "admin"})
    assert reply["code"] in (13, 14)  # 14: a number of this type is refused


@pytest.mark.parametrize(
    "stage",
    [
        {"$unionWith": {"coll": "orders", "pipeline": [
            {"$lookup": {"from": "secret", "pipeline": [], "as": "x"}},
        ]}},
        {"$lookup": {"from": "orders", "pipeline": [{"$unionWith": "secret"}], "as": "x"}},
        {"$facet": {"a": [{"$graphLookup": {
            "from": "secret", "startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "x",
        }}]}},
        {"$unionWith": "secret"},
        {"$merge": "secret"},
        {"$out": "secret"},
    ],
)  # fmt: skip
def test_collections_that_stages_name(
    root: Client, as_user: Callable[..., Client], place: str, stage: Document
) -> None:
    root[place].secret.insert_one({"_id": "secret"})
    orders = {"db": place, "collection": "orders"}
    privileges = [{"resource": orders, "actions": ["find", "insert", "update", "remove"]}]
    root.admin.command("createRole", place, privileges=privileges, roles=[])
    with pytest.raises(OperationFailure) as failure:
        as_user([place])[place].orders.aggregate([stage])
    assert failure.value.code == 13
    assert root[place].secret.count_documents({}) == 1
