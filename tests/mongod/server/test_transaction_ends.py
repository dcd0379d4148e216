"""The ends of transactions: commit, abort, errors, expiry, sessions, step-downs and stops of the server."""

from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.operations import InsertOne, UpdateOne

from tailrace.bson.documents import decode
from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running
from tests.mongod.server.transacting import (
    TRANSIENT,
    end,
    entries,
    failure,
    new_lsid,
    now,
    statement,
    transaction,
    wait_for_blocked,
)


class TestEnds:
    def test_a_repeated_commit_succeeds(
        self, server: RunningServer, client: MongoClient[Document], items: Any
    ) -> None:
        before = now(client)
        with transaction(client) as session:
            items.insert_one({"_id": 9}, session=session)
            session.commit_transaction()
            session.commit_transaction()
        assert len([entry for entry in entries(server, before) if "txnNumber" in entry]) == 1

    def test_a_repeated_commit_succeeds_after_a_restart(self, tmp_path: Path) -> None:
        lsid = new_lsid()
        with running(data=tmp_path) as server, raw_client(server) as raw:
            raw.call({"create": "items", "$db": "shop"})
            statement(raw, lsid, 5, {"insert": "items", "documents": [{"_id": 1}]}, start=True)
            assert end(raw, lsid, 5, "commitTransaction")["ok"] == 1.0
        with running(data=tmp_path) as server, raw_client(server) as raw:
            before = server.server.store.last_committed
            assert end(raw, lsid, 5, "commitTransaction")["ok"] == 1.0
            assert server.server.store.last_committed == before
            assert end(raw, lsid, 5, "abortTransaction")["code"] == 256
            assert end(raw, lsid, 4, "commitTransaction")["code"] == 225
            found = raw.call({"find": "items", "$db": "shop"})["cursor"]["firstBatch"]
            assert found == [{"_id": 1}]

    def test_open_transactions_are_aborted_by_a_stop(self, tmp_path: Path) -> None:
        lsid = new_lsid()
        with running(data=tmp_path) as server, raw_client(server) as raw:
            raw.call({"create": "items", "$db": "shop"})
            statement(raw, lsid, 5, {"insert": "items", "documents": [{"_id": 1}]}, start=True)
        with running(data=tmp_path) as server, raw_client(server) as raw:
            reply = end(raw, lsid, 5, "commitTransaction")
            assert (reply["code"], reply["errorLabels"]) == (251, [TRANSIENT])
            assert raw.call({"find": "items", "$db": "shop"})["cursor"]["firstBatch"] == []

    def test_a_read_only_transaction_logs_nothing(
        self, server: RunningServer, client: MongoClient[Document], items: Any
    ) -> None:
        before = now(client)
        with transaction(client) as session:
            assert len(list(items.find(session=session))) == 3
            session.commit_transaction()
            session.commit_transaction()
        assert entries(server, before) == []

    def test_a_failed_statement_ends_it(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as session:
            items.insert_one({"_id": 9}, session=session)
            with pytest.raises(DuplicateKeyError):
                items.insert_one({"_id": 1}, session=session)
            assert failure(items.find_one, {}, session=session).code == 251
        with transaction(client) as session:
            requests = [InsertOne({"_id": 1}), UpdateOne({"_id": 2}, {"$set": {"x": 1}})]
            with pytest.raises(BulkWriteError):
                items.bulk_write(requests, session=session)
            assert failure(session.commit_transaction).code == 251
        with transaction(client) as session:
            assert failure(items.find_one, {"$bad": 1}, session=session).code == 2
            assert failure(items.find_one, {}, session=session).code == 251
        assert [document["x"] for document in items.find()] == [0, 0, 0]

    def test_an_invalid_document_ends_it(
        self, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        database.create_collection("strict", validator={"x": {"$type": "int"}})
        with transaction(client) as session:
            assert failure(database.strict.insert_one, {"x": "text"}, session=session).code == 121
            assert failure(session.commit_transaction).code == 251

    def test_ending_it_again(self, server: RunningServer, items: Any) -> None:
        lsid = new_lsid()
        insert = {"insert": items.name, "documents": [{"_id": 9}], "$db": items.database.name}
        with raw_client(server) as raw:
            statement(raw, lsid, 1, insert, start=True)
            assert end(raw, lsid, 1, "abortTransaction")["ok"] == 1.0
            for name in ("abortTransaction", "commitTransaction"):
                reply = end(raw, lsid, 1, name)
                assert (reply["code"], reply["errorLabels"]) == (251, [TRANSIENT])
            statement(raw, lsid, 2, insert, start=True)
            assert end(raw, lsid, 2, "commitTransaction")["ok"] == 1.0
            assert end(raw, lsid, 2, "abortTransaction")["code"] == 256
            assert statement(raw, lsid, 2, insert)["code"] == 256
            assert end(raw, lsid, 2, "commitTransaction")["ok"] == 1.0
        assert items.count_documents({"_id": 9}) == 1

    def test_a_higher_number_ends_it(
        self, server: RunningServer, client: MongoClient[Document], items: Any
    ) -> None:
        lsid = new_lsid()
        with raw_client(server) as raw:
            insert = {"insert": items.name, "documents": [{"_id": 9}], "$db": items.database.name}
            assert statement(raw, lsid, 1, insert, start=True)["n"] == 1
            assert raw.call({**insert, "lsid": lsid, "txnNumber": Int64(2)})["n"] == 1
            reply = end(raw, lsid, 1, "commitTransaction")
            assert reply["code"] == 225
        assert items.count_documents({"_id": 9}) == 1

    def test_killing_its_session(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as session:
            items.insert_one({"_id": 9}, session=session)
            client.admin.command({"killSessions": [session.session_id]})
            error = failure(items.find_one, {}, session=session)
            assert (error.code, error.has_error_label(TRANSIENT)) == (251, True)
        items.insert_one({"_id": 9})

    def test_ending_its_session(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as session:
            items.insert_one({"_id": 9}, session=session)
            client.admin.command({"endSessions": [session.session_id]})
            items.insert_one({"_id": 9})

    def test_its_time_is_limited(self, own_server: RunningServer, own_client: MongoClient[Document]) -> None:
        items = own_client.shop.items
        items.insert_one({"_id": 1})
        with transaction(own_client) as session, transaction(own_client) as younger:
            items.update_one({"_id": 1}, {"$set": {"x": 1}}, session=session)
            own_server.call(own_server.server.advance_clock(30))
            items.find_one({}, session=younger)
            own_server.call(own_server.server.advance_clock(31))
            error = failure(items.find_one, {}, session=session)
            assert (error.code, error.has_error_label(TRANSIENT)) == (251, True)
            items.update_one({"_id": 1}, {"$set": {"x": 2}})
            assert items.find_one({}, session=younger) == {"_id": 1}
        assert "Aborted a transaction that was open for too long" in own_server.messages()

    def test_its_time_limit_can_be_set(
        self, own_server: RunningServer, own_client: MongoClient[Document]
    ) -> None:
        own_client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=1000)
        with transaction(own_client) as session:
            own_client.shop.items.insert_one({"_id": 1}, session=session)
            own_server.call(own_server.server.advance_clock(900))
            session.commit_transaction()

    def test_a_step_down_aborts_all(
        self, own_server: RunningServer, own_client: MongoClient[Document]
    ) -> None:
        items = own_client.shop.items
        items.insert_one({"_id": 1})
        with transaction(own_client) as session:
            items.update_one({"_id": 1}, {"$set": {"x": 1}}, session=session)
            own_server.call(own_server.server.first.step_down(60))
            own_server.call(own_server.server.first.step_up())
            error = failure(items.find_one, {}, session=session)
            assert (error.code, error.has_error_label(TRANSIENT)) == (251, True)
        assert items.find_one({}) == {"_id": 1}

    def test_a_server_with_open_transactions_and_waiting_writes_stops(self) -> None:
        update = {"update": "items", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}]}
        with running() as server, raw_client(server) as inside, raw_client(server) as outside:
            inside.call({"insert": "items", "documents": [{"_id": 1}], "$db": "shop"})
            assert statement(inside, new_lsid(), 1, update, start=True)["n"] == 1
            outside.send({**update, "$db": "shop"})
            with connected(server) as client:
                wait_for_blocked(client)
            server.close()
            assert decode(outside.receive().document)["code"] == 11600
