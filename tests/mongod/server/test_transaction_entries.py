"""The oplog entries, catalog changes and pre-images of a committed transaction."""

from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

from tests.mongod.server.running import Document, RunningServer
from tests.mongod.server.transacting import entries, failure, now, transaction


class TestEntries:
    def test_one_entry_with_its_operations_in_order(
        self, server: RunningServer, client: MongoClient[Document], items: Any
    ) -> None:
        before = now(client)
        with transaction(client) as session:
            items.insert_one({"_id": 4}, session=session)
            items.update_one({"_id": 1}, {"$set": {"x": 5}}, session=session)
            items.replace_one({"_id": 2}, {"y": 1}, session=session)
            items.find_one_and_delete({"_id": 3}, session=session)
            items.update_one({"_id": 1}, {"$set": {"x": 5}}, session=session)
            session.commit_transaction()
        (entry,) = entries(server, before)
        assert entry["prevOpTime"] == {"ts": Timestamp(0, 0), "t": Int64(-1)}
        assert (entry["op"], entry["ns"], list(entry["o"])) == ("c", "admin.$cmd", ["applyOps"])
        inner = entry["o"]["applyOps"]
        assert [(operation["op"], operation["o"], operation.get("o2")) for operation in inner] == [
            ("i", {"_id": 4}, {"_id": 4}),
            ("u", {"$v": 2, "diff": {"u": {"x": 5}}}, {"_id": 1}),
            ("u", {"_id": 2, "y": 1}, {"_id": 2}),
            ("d", {"_id": 3}, None),
        ]

    def test_a_thousand_operations(
        self, server: RunningServer, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        collection = database.create_collection("many")
        before = now(client)
        with transaction(client) as session:
            collection.insert_many([{"_id": n} for n in range(800)], session=session)
            collection.update_many({"_id": {"$lt": 150}}, {"$set": {"x": 1}}, session=session)
            collection.delete_many({"_id": {"$gte": 750}}, session=session)
            session.commit_transaction()
        (entry,) = entries(server, before)
        assert len(entry["o"]["applyOps"]) == 1000
        assert collection.count_documents({}) == 750
        assert collection.count_documents({"x": 1}) == 150

    def test_more_than_sixteen_megabytes(
        self, server: RunningServer, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        collection = database.create_collection("large")
        before = now(client)
        with transaction(client) as session:
            for number in range(3):
                collection.insert_one({"_id": number, "filler": bytes(6 << 20)}, session=session)
            session.commit_transaction()
        first, second = entries(server, before)
        assert (first["o"]["partialTxn"], len(first["o"]["applyOps"])) == (True, 2)
        assert (second["o"]["count"], len(second["o"]["applyOps"])) == (Int64(3), 1)
        assert second["prevOpTime"] == {"ts": first["ts"], "t": first["t"]}
        assert collection.count_documents({}) == 3

    def test_collections_and_indexes_created_inside(
        self, server: RunningServer, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        before = now(client)
        with transaction(client) as session:
            database.create_collection("explicit", session=session, check_exists=False)
            database.explicit.create_index("x", unique=True, session=session)
            database.explicit.insert_one({"_id": 1, "x": 1}, session=session)
            database.implicit.insert_one({"_id": 1}, session=session)
            database.indexed.create_index("y", session=session)
            assert database.list_collection_names() == []
            session.commit_transaction()
        (entry,) = entries(server, before)
        inner = entry["o"]["applyOps"]
        assert [(operation["ns"].partition(".")[2], next(iter(operation["o"]))) for operation in inner] == [
            ("$cmd", "create"),
            ("$cmd", "createIndexes"),
            ("explicit", "_id"),
            ("$cmd", "create"),
            ("implicit", "_id"),
            ("$cmd", "create"),
            ("$cmd", "createIndexes"),
        ]
        assert sorted(database.list_collection_names()) == ["explicit", "implicit", "indexed"]
        assert sorted(database.explicit.index_information()) == ["_id_", "x_1"]
        with pytest.raises(DuplicateKeyError):
            database.explicit.insert_one({"x": 1})
        with transaction(client) as session:
            error = failure(database.explicit.create_index, "z", session=session)
            assert error.code == 263

    def test_pre_images(
        self, server: RunningServer, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        collection = database.create_collection("imaged", changeStreamPreAndPostImages={"enabled": True})
        collection.insert_one({"_id": 1, "x": 0})
        before = now(client)
        with transaction(client) as session:
            collection.insert_one({"_id": 2}, session=session)
            collection.update_one({"_id": 1}, {"$set": {"x": 1}}, session=session)
            collection.delete_one({"_id": 1}, session=session)
            session.commit_transaction()
        (entry,) = entries(server, before)
        stored = client.config["system.preimages"].find({"_id.ts": entry["ts"]})
        assert [(image["_id"]["applyOpsIndex"], image["preImage"]) for image in stored] == [
            (1, {"_id": 1, "x": 0}),
            (2, {"_id": 1, "x": 1}),
        ]

    def test_events(self, client: MongoClient[Document], database: Database[Document]) -> None:
        collection = database.create_collection("watched")
        with database.watch(show_expanded_events=True) as stream, transaction(client) as session:
            collection.insert_one({"_id": 1}, session=session)
            database.made.insert_one({"_id": 1}, session=session)
            collection.update_one({"_id": 1}, {"$set": {"x": 1}}, session=session)
            assert stream.try_next() is None
            session.commit_transaction()
            events = [stream.next() for _ in range(4)]
            lsid = session.session_id["id"]
        assert [(event["operationType"], event["ns"]["coll"]) for event in events] == [
            ("insert", "watched"),
            ("create", "made"),
            ("insert", "made"),
            ("update", "watched"),
        ]
        assert {event["lsid"]["id"] for event in events} == {lsid}
        assert len({event["txnNumber"] for event in events}) == 1
        assert len({event["clusterTime"] for event in events}) == 1

    def test_the_record_of_the_session(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as session:
            items.insert_one({"_id": 9}, session=session)
            session.commit_transaction()
            record = client.config.transactions.find_one({"_id.id": session.session_id["id"]})
        assert record is not None
        assert record["state"] == "committed"
        assert record["lastWriteOpTime"]["ts"] <= now(client)
