"""Write concerns that one member can meet, and others."""

from pathlib import Path

import pytest
from pymongo import WriteConcern
from pymongo.database import Database
from pymongo.errors import BulkWriteError, OperationFailure, WriteConcernError

from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document, RunningServer, connected, running
from tests.mongod.server.writing import entries_of


@pytest.mark.parametrize(
    "concern", [{"w": 1}, {"w": "majority"}, {"w": "majority", "j": True}, {"j": True}, {}]
)
def test_write_concerns_that_one_member_can_meet(database: Database[Document], concern: Document) -> None:
    reply = database.command("insert", "things", documents=[{"_id": 1}], writeConcern=concern)
    assert reply["n"] == 1
    assert "writeConcernError" not in reply


@pytest.mark.parametrize(("w", "code"), [(2, 100), (50, 100), ("backups", 79)])
def test_a_write_concern_that_cannot_be_met_does_not_undo_the_write(
    database: Database[Document], w: int | str, code: int
) -> None:
    concern = {"w": w, "wtimeout": 10}
    for command in (
        {"insert": "things", "documents": [{"_id": 1}]},
        {"update": "things", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
        {"findAndModify": "things", "query": {"_id": 1}, "update": {"$set": {"a": 2}}},
        {"delete": "things", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    ):
        reply = database.command({**command, "writeConcern": concern}, check=False)
        assert reply["ok"] == 1
        assert reply["writeConcernError"]["code"] == code
    assert [entry["op"] for entry in entries_of(database)] == ["c", "i", "u", "u", "d"]


def test_a_driver_sees_a_write_concern_error(database: Database[Document]) -> None:
    strict = database.things.with_options(write_concern=WriteConcern(w=3, wtimeout=10))
    with pytest.raises(WriteConcernError) as failure:
        strict.insert_one({"_id": 1})
    assert failure.value.code == 100
    with pytest.raises(BulkWriteError) as several:
        strict.insert_many([{"_id": 1}, {"_id": 2}], ordered=False)
    assert several.value.details["nInserted"] == 1
    assert several.value.details["writeConcernErrors"]


@pytest.mark.parametrize(
    ("concern", "code"), [({"w": -1}, 9), ({"w": 51}, 9), ({"w": True}, 9), ({"x": 1}, 40415)]
)
def test_invalid_write_concerns_are_refused(
    database: Database[Document], concern: Document, code: int
) -> None:
    with pytest.raises(OperationFailure) as failure:
        database.command("insert", "things", documents=[{"_id": 1}], writeConcern=concern)
    assert failure.value.code == code


def test_unacknowledged_writes_are_written(server: RunningServer, database: Database[Document]) -> None:
    with connected(server, maxPoolSize=1) as client:
        silent = client[database.name].things.with_options(write_concern=WriteConcern(w=0))
        silent.insert_one({"_id": 1})
        silent.insert_one({"_id": 1})
        silent.update_one({"_id": 1}, {"$set": {"a": 1}})
        # There is one connection, which runs commands in order: this one comes after the writes.
        assert list(client[database.name].things.find()) == [{"_id": 1, "a": 1}]


def test_acknowledged_writes_survive_a_restart(tmp_path: Path) -> None:
    for number in range(3):
        with running(data=tmp_path / "data") as server, connected(server) as client:
            assert client.shop.things.count_documents({}) == number
            client.shop.things.insert_one({"_id": number})


def test_a_failed_change_of_the_catalog_has_waited_for_its_write_concern(raw: RawClient) -> None:
    concern = {"writeConcern": {"w": 50, "wtimeout": 1}}
    raw.call({"create": "taken", "$db": "concerns"})
    for command in (
        {"renameCollection": "concerns.none", "to": "concerns.other", "$db": "admin"},
        {"dropIndexes": "taken", "index": "none", "$db": "concerns"},
        {"collMod": "none", "$db": "concerns"},
    ):
        reply = raw.call({**command, **concern})
        assert list(reply)[:2] == ["writeConcernError", "ok"]
        assert (reply["writeConcernError"]["code"], reply["ok"]) == (100, 0.0)
        assert "writeConcernError" not in raw.call(command)
    assert "writeConcernError" not in raw.call({"drop": 1, "$db": "concerns", **concern})
