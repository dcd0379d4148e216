"""The profiler, `top` and latencies; `tests/oracle/test_commands_profile.py` compares them with a mongod."""

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document


def test_all_commands_are_profiled(items: Collection[Document]) -> None:
    database = items.database
    assert database.command("profile", 2)["was"] == 0
    list(items.find({"x": 0}, comment="look"))
    items.update_one({"_id": 1}, {"$set": {"x": 1}})
    with pytest.raises(OperationFailure):
        list(items.find({"$none": 1}))
    assert database.command("profile", 0)["was"] == 2
    items.insert_one({})
    found = list(database["system.profile"].find({"ns": items.full_name}))
    assert [entry["op"] for entry in found] == ["query", "update", "query"]
    assert found[0]["command"]["comment"] == "look"
    assert found[0]["nreturned"] == 3
    assert found[2]["errCode"] == 2
    assert "_id" not in found[0]
    database["system.profile"].drop()


def test_the_profile_is_not_logged(client: MongoClient[Document], items: Collection[Document]) -> None:
    name = f"{items.database.name}.system.profile"
    items.database.command("profile", 2)
    list(items.find())
    items.database.command("profile", 0)
    items.database["system.profile"].drop()
    assert not list(client.local["oplog.rs"].find({"ns": name}))
    commands = client.local["oplog.rs"].find({"ns": f"{items.database.name}.$cmd"})
    assert not [entry for entry in commands if "system.profile" in entry["o"].values()]


def test_slow_commands_and_filters(items: Collection[Document]) -> None:
    database = items.database
    database.command("profile", 1, slowms=60_000)
    list(items.find())
    database.command("profile", 1, filter={"command.comment": "look"})
    list(items.find(comment="look"))
    list(items.find(comment="other"))
    database.command("profile", 0, slowms=100, filter="unset")
    assert database["system.profile"].count_documents({}) == 1
    with pytest.raises(OperationFailure) as failure:
        database.command("profile", 0, filter={"unknown": 1})
    assert failure.value.code == 4910200


def test_uses_are_counted_by_collection(client: MongoClient[Document], items: Collection[Document]) -> None:
    list(items.find())
    items.delete_one({"_id": 1})
    shown = client.admin.command("top")["totals"][items.full_name]
    counts = {kind: use["count"] for kind, use in shown.items() if use["count"]}
    assert counts == {"total": 3, "readLock": 1, "writeLock": 2, "queries": 1, "insert": 1, "remove": 1}
    stage = {"$collStats": {"latencyStats": {"histograms": True}}}
    (found,) = items.aggregate([stage])
    assert found["latencyStats"]["writes"]["ops"] == 2
    assert sum(bucket["count"] for bucket in found["latencyStats"]["writes"]["histogram"]) == 2
    assert client.admin.command("serverStatus")["opLatencies"]["writes"]["ops"] >= 2
    items.drop()
    assert items.full_name not in client.admin.command("top")["totals"]
