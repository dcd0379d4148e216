"""Refusals in transactions, invalid arguments, and statistics of transactions."""

from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import PyMongoError
from pymongo.operations import InsertOne, UpdateOne

from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, running
from tests.mongod.server.transacting import TRANSIENT, end, failure, new_lsid, now, statement, transaction


class TestRules:
    def test_a_repeated_create_is_refused(
        self, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        database.command("create", "items")
        database.command("create", "items")  # with the same options, outside of a transaction
        with client.start_session() as session, session.start_transaction():
            with pytest.raises(PyMongoError) as failed:
                database.command("create", "items", session=session)
            assert getattr(failed.value, "code", None) == 48
            session.abort_transaction()

    @pytest.mark.parametrize(
        "command",
        [
            {"count": "items"},
            {"drop": "items"},
            {"collMod": "items"},
            {"listCollections": 1},
            {"ping": 1},
            {"find": "items", "$db": "config"},
            {"insert": "items", "documents": [{"_id": 1}], "$db": "local"},
        ],
        ids=lambda command: next(iter(command)),
    )
    def test_refused_commands(self, server: RunningServer, command: Document) -> None:
        lsid = new_lsid()
        with raw_client(server) as raw:
            assert statement(raw, lsid, 1, {"find": "items"}, start=True)["ok"] == 1.0
            assert statement(raw, lsid, 1, command)["code"] == 263
            # The transaction continues without it.
            assert statement(raw, lsid, 1, {"find": "items"})["ok"] == 1.0

    @pytest.mark.parametrize(
        "command",
        [
            {"aggregate": "items", "pipeline": [{"$out": "other"}], "cursor": {}},
            {"aggregate": "items", "pipeline": [{"$merge": "other"}], "cursor": {}},
            {"aggregate": "items", "pipeline": [{"$changeStream": {}}], "cursor": {}},
            {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}},
        ],
        ids=str,
    )
    def test_a_refused_stage_ends_the_transaction(self, server: RunningServer, command: Document) -> None:
        lsid = new_lsid()
        with raw_client(server) as raw:
            assert statement(raw, lsid, 1, {"find": "items"}, start=True)["ok"] == 1.0
            assert statement(raw, lsid, 1, command)["code"] == 263
            assert end(raw, lsid, 1, "commitTransaction")["code"] == 251

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ({"update": "items", "updates": [{"q": {}, "u": 1}]}, 9),
            ({"update": "items", "updates": [{"q": {}, "u": [{"$foo": 1}]}]}, 40324),
            ({"insert": "items", "documents": []}, 16),
            ({"aggregate": "items", "pipeline": [{"$foo": 1}], "cursor": {}}, 40324),
            ({"insert": "items", "documents": [{}], "unknown": 1}, 40415),
        ],
        ids=str,
    )
    def test_a_command_that_cannot_be_read_does_not_end_the_transaction(
        self, server: RunningServer, command: Document, code: int
    ) -> None:
        lsid = new_lsid()
        with raw_client(server) as raw:
            assert statement(raw, lsid, 1, {"find": "items"}, start=True)["ok"] == 1.0
            assert statement(raw, lsid, 1, command)["code"] == code
            assert end(raw, lsid, 1, "commitTransaction")["ok"] == 1.0

    def test_the_admin_database_may_be_used(self, server: RunningServer) -> None:
        lsid = new_lsid()
        insert = {"insert": "in_transaction", "documents": [{"_id": 1}], "$db": "admin"}
        with raw_client(server) as raw:
            assert statement(raw, lsid, 1, insert, start=True)["n"] == 1
            refused = {"insert": "system.users", "documents": [{"_id": 1}], "$db": "admin"}
            assert statement(raw, lsid, 1, refused)["code"] == 50791

    def test_the_first_statement_may_be_a_get_more(self, server: RunningServer) -> None:
        lsid = new_lsid()
        with raw_client(server) as raw:
            more = {"getMore": Int64(5), "collection": "items"}
            assert statement(raw, lsid, 1, more, start=True)["code"] == 43

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"txnNumber": Int64(1), "autocommit": True}, 72),
            ({"txnNumber": Int64(1), "autocommit": False, "startTransaction": False}, 72),
            ({"txnNumber": Int64(1), "startTransaction": True}, 72),
            ({"autocommit": False}, 72),
            ({"txnNumber": Int64(1), "autocommit": False}, 251),
            ({"txnNumber": Int64(1), "autocommit": False, "startTransaction": True, "writeConcern": {}}, 72),
            ({"txnNumber": Int64(1), "autocommit": False, "readConcern": {"level": "local"}}, 72),
            ({"txnNumber": Int64(1)}, 50768),
        ],
    )
    def test_invalid_arguments(self, server: RunningServer, fields: Document, code: int) -> None:
        with raw_client(server) as raw:
            lsid = new_lsid()
            assert raw.call({"find": "items", "$db": "shop", "lsid": lsid, **fields})["code"] == code

    @pytest.mark.parametrize("level", ["linearizable", "available"])
    def test_read_concerns(self, server: RunningServer, level: str) -> None:
        with raw_client(server) as raw:
            lsid = new_lsid()
            find = {"find": "items", "readConcern": {"level": level}}
            assert statement(raw, lsid, 1, find, start=True)["code"] == 72

    def test_at_cluster_time(self, own_server: RunningServer, own_client: MongoClient[Document]) -> None:
        past = now(own_client)
        own_client.shop.items.insert_one({"_id": 9})
        with raw_client(own_server) as raw:
            lsid = new_lsid()
            find = {"find": "items", "readConcern": {"level": "snapshot", "atClusterTime": past}}
            reply = statement(raw, lsid, 1, find, start=True)
            # The collection did not exist at that time.
            assert (reply["code"], reply["errorLabels"]) == (246, [TRANSIENT])
            present = reply["operationTime"]
            find["readConcern"] = {"level": "snapshot", "atClusterTime": present}
            assert statement(raw, lsid, 2, find, start=True)["ok"] == 1.0
            future = Timestamp(present.time + 1000, 1)
            find["readConcern"] = {"level": "snapshot", "atClusterTime": future}
            assert statement(raw, lsid, 3, find, start=True)["code"] == 72
            gossip = {"clusterTime": future, "signature": {"hash": bytes(20), "keyId": Int64(0)}}
            assert statement(raw, lsid, 3, {**find, "$clusterTime": gossip}, start=True)["ok"] == 1.0

    def test_numbers(self, server: RunningServer) -> None:
        lsid = new_lsid()
        find = {"find": "items"}
        with raw_client(server) as raw:
            assert statement(raw, lsid, 5, find, start=True)["ok"] == 1.0
            assert statement(raw, lsid, 5, find, start=True)["code"] == 117
            assert statement(raw, lsid, 4, find, start=True)["code"] == 225
            assert statement(raw, lsid, 4, find)["code"] == 225
            assert statement(raw, lsid, 6, find)["code"] == 251
            insert = {"insert": "items", "documents": [{}], "$db": "shop", "lsid": lsid}
            assert raw.call({**insert, "txnNumber": Int64(5)})["code"] == 217
            assert statement(raw, lsid, 5, find)["ok"] == 1.0

    def test_ends_outside_of_transactions(self, server: RunningServer) -> None:
        lsid = new_lsid()
        with raw_client(server) as raw:
            for name in ("commitTransaction", "abortTransaction"):
                assert raw.call({name: 1})["code"] == 125
                assert statement(raw, lsid, 1, {name: 1, "$db": "shop"})["code"] == 13
                reply = end(raw, lsid, 1, name)
                assert (reply["code"], reply["errorLabels"]) == (251, [TRANSIENT])
                assert statement(raw, lsid, 1, {name: 1, "$db": "admin"}, start=True)["code"] == 263
            assert statement(raw, lsid, 1, {"find": "items"}, start=True)["ok"] == 1.0
            assert end(raw, lsid, 1, "commitTransaction", recoveryToken={}, unknown=1)["code"] == 40415

    def test_write_concern_belongs_to_the_end(
        self, server: RunningServer, client: MongoClient[Document], items: Any
    ) -> None:
        lsid = new_lsid()
        insert = {"insert": items.name, "documents": [{"_id": 9}], "$db": items.database.name}
        with raw_client(server) as raw:
            assert statement(raw, lsid, 1, insert, start=True)["n"] == 1
            reply = end(raw, lsid, 1, "commitTransaction", writeConcern={"w": 3, "wtimeout": 10})
            assert (reply["ok"], reply["writeConcernError"]["code"]) == (1.0, 100)
            reply = end(raw, lsid, 1, "commitTransaction", writeConcern={"w": "majority"}, maxTimeMS=5000)
            assert "writeConcernError" not in reply
        assert items.count_documents({}) == 4

    def test_capped_collections_are_not_written(
        self, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        database.create_collection("capped", capped=True, size=4096)
        with transaction(client) as session:
            assert failure(database.capped.insert_one, {}, session=session).code == 263
        with transaction(client) as session:
            assert failure(database.capped.delete_one, {}, session=session).code == 20
        with transaction(client) as session:
            assert failure(database.capped.find_one_and_delete, {}, session=session).code == 263

    def test_views_are_not_created(self, client: MongoClient[Document], database: Database[Document]) -> None:
        with transaction(client) as session:
            command = {"create": "view", "viewOn": "items", "pipeline": []}
            assert failure(database.command, command, session=session).code == 263

    def test_a_standalone_server_has_none(self) -> None:
        with running(replica_set=None) as server, raw_client(server) as raw:
            lsid = new_lsid()
            assert statement(raw, lsid, 1, {"find": "items"}, start=True)["code"] == 20


class TestStatus:
    def test_counters_and_operations(self, own_client: MongoClient[Document]) -> None:
        def status() -> Document:
            found: Document = own_client.admin.command("serverStatus")["transactions"]
            return found

        items = own_client.shop.items
        with transaction(own_client) as session:
            items.insert_one({"_id": 1}, session=session)
            assert (status()["currentOpen"], status()["totalStarted"]) == (1, 1)
            operations = own_client.admin.command("currentOp", True)["inprog"]
            (idle,) = [operation for operation in operations if operation["type"] == "idleSession"]
            assert idle["transaction"]["parameters"]["txnNumber"] == 1
            assert idle["transaction"]["parameters"]["autocommit"] is False
            session.commit_transaction()
            with session.start_transaction():
                items.insert_one({"_id": 2}, session=session)
                session.abort_transaction()
        shown = status()
        assert (shown["currentOpen"], shown["totalCommitted"], shown["totalAborted"]) == (0, 1, 1)

    def test_a_client_level_bulk_write(self, client: MongoClient[Document], items: Any) -> None:
        ns = items.full_name
        with transaction(client) as session:
            requests: list[InsertOne[Document] | UpdateOne] = [
                InsertOne({"_id": 9}, namespace=ns),
                UpdateOne({"_id": 1}, {"$inc": {"x": 1}}, namespace=ns),
            ]
            client.bulk_write(requests, session=session)
            assert items.count_documents({}) == 3
            session.commit_transaction()
        assert items.count_documents({}) == 4
        with transaction(client) as session:
            with pytest.raises(PyMongoError):
                client.bulk_write([InsertOne({"_id": 9}, namespace=ns)], session=session)
            assert failure(session.commit_transaction).code == 251
