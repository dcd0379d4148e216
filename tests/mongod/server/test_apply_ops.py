"""`applyOps`; `tests/oracle/test_commands_apply_ops.py` compares it with a mongod."""

from typing import Any

import pytest
from bson import Binary
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document

DIFF = {"$v": 2, "diff": {"u": {"x": 5}}}


def operation(kind: str, items: Collection[Document], o: Document, **fields: Any) -> Document:
    return {"op": kind, "ns": items.full_name, "o": o, **fields}


def newest_entries(client: MongoClient[Document], number: int) -> list[Document]:
    found = list(client.local["oplog.rs"].find({"op": {"$ne": "n"}}).sort("$natural", -1).limit(number))
    return found[::-1]


def changes(items: Collection[Document]) -> list[Document]:
    return [
        operation("i", items, {"_id": 9}),
        operation("i", items, {"_id": 1, "again": True}),
        operation("u", items, DIFF, o2={"_id": 2}),
        operation("u", items, {"$set": {"y": 1}}, o2={"_id": 10}),
        operation("d", items, {"_id": 3}),
        {"op": "n", "ns": "", "o": {}},
    ]


AFTER = [{"_id": 1, "again": True}, {"_id": 2, "x": 5}, {"_id": 9}, {"_id": 10, "y": 1}]


def test_changes_are_one_entry(client: MongoClient[Document], items: Collection[Document]) -> None:
    reply = client.admin.command({"applyOps": changes(items)})
    assert (reply["applied"], reply["results"]) == (5, [True] * 5)
    assert list(items.find(sort={"_id": 1})) == AFTER
    (entry,) = newest_entries(client, 1)
    assert [each["op"] for each in entry["o"]["applyOps"]] == list("iiuud")
    assert all("ui" in each for each in entry["o"]["applyOps"])


def test_changes_have_their_own_entries(client: MongoClient[Document], items: Collection[Document]) -> None:
    client.admin.command({"applyOps": changes(items), "allowAtomic": False})
    assert list(items.find(sort={"_id": 1})) == AFTER
    assert [entry["op"] for entry in newest_entries(client, 5)] == list("iuuid")


def test_streams_show_the_changes(client: MongoClient[Document], items: Collection[Document]) -> None:
    with items.watch() as stream:
        client.admin.command({"applyOps": changes(items)})
        shown = [next(stream)["operationType"] for _ in range(5)]
    assert shown == ["insert", "insert", "update", "replace", "delete"]


def test_nothing_is_changed_if_one_fails(items: Collection[Document], raw: RawClient) -> None:
    before = list(items.find())
    given = [operation("d", items, {"_id": 1}), operation("i", items, {"without": "_id"})]
    reply = raw.call({"applyOps": given})
    assert (reply["ok"], reply["code"], reply["applied"]) == (0.0, 4, 2)
    assert reply["results"] == [False, False]
    assert list(items.find()) == before


def test_commands_are_applied_again(client: MongoClient[Document], database: Database[Document]) -> None:
    uuid = Binary(bytes.fromhex("0011223344554677889900aabbccddee"), 4)
    for _ in range(2):
        create = {"op": "c", "ns": f"{database.name}.$cmd", "ui": uuid, "o": {"create": "new"}}
        client.admin.command({"applyOps": [create, operation("i", database.new, {"_id": 1})]})
    (found,) = database.list_collections()
    assert found["info"]["uuid"] == uuid
    drop = {"op": "c", "ns": f"{database.name}.$cmd", "o": {"drop": "new"}}
    for _ in range(2):
        client.admin.command({"applyOps": [drop]})
    assert database.list_collection_names() == []


@pytest.mark.parametrize(
    ("given", "code"),
    [(1, 14), ([1], 14), ([{}], 4), ([{"op": "i", "ns": ""}], 20), ([{"op": "i", "ns": "a.b"}], 40414)],
)
def test_what_is_no_operation(client: MongoClient[Document], given: Any, code: int) -> None:
    with pytest.raises(OperationFailure) as failure:
        client.admin.command({"applyOps": given})
    assert failure.value.code == code


def test_a_condition(items: Collection[Document], raw: RawClient) -> None:
    command: Document = {"applyOps": [operation("d", items, {"_id": 1})]}
    wrong = {"ns": items.full_name, "q": {"_id": 2}, "res": {"x": 7}}
    reply = raw.call({**command, "preCondition": [wrong]})
    assert (reply["got"], reply["whatFailed"], reply["code"]) == ({"_id": 2, "x": 0}, wrong, 2)
    assert raw.call({**command, "preCondition": [{**wrong, "res": {"x": 0}}]})["ok"] == 1.0
    assert items.count_documents({}) == 2


def test_a_created_collection_is_logged_as_given(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    create = {"op": "c", "ns": f"{database.name}.$cmd", "o": {"create": "made"}}
    client.admin.command({"applyOps": [create]})
    (entry,) = newest_entries(client, 1)
    assert entry["o"] == {"create": "made"}
    assert list(database.made.index_information()) == ["_id_"]
