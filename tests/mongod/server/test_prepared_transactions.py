"""Transactions that a coordinator prepares on a shard, and decides later."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp
from pymongo import MongoClient
from pymongo.database import Database

from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for
from tests.mongod.server.served import ServedProcess, served
from tests.mongod.server.transacting import (
    TRANSIENT,
    end,
    entries,
    failure,
    new_lsid,
    now,
    statement,
    wait_for_blocked,
)

NULL_OPTIME = {"ts": Timestamp(0, 0), "t": Int64(-1)}


class Prepared:
    """A transaction of one session, with the commands of a coordinator."""

    def __init__(self, raw: RawClient, number: int = 1, database: str = "shop") -> None:
        self.raw = raw
        self.lsid = new_lsid()
        self.number = number
        self._database = database
        self._has_begun = False
        self.time = Timestamp(0, 0)

    def run(self, command: Document) -> Document:
        command = {**command, "$db": command.get("$db", self._database)}
        reply = statement(self.raw, self.lsid, self.number, command, start=not self._has_begun)
        self._has_begun = True
        return reply

    def write(self, command: Document) -> None:
        reply = self.run(command)
        assert (reply["ok"], reply.get("writeErrors")) == (1.0, None), reply

    def prepare(self) -> Document:
        reply = end(self.raw, self.lsid, self.number, "prepareTransaction")
        self.time = reply.get("prepareTimestamp", self.time)
        return reply

    def commit(self, time: Timestamp | None = None) -> Document:
        return end(self.raw, self.lsid, self.number, "commitTransaction", commitTimestamp=time or self.time)

    def abort(self) -> Document:
        return end(self.raw, self.lsid, self.number, "abortTransaction")


@contextmanager
def prepared(raw: RawClient, items: Any, number: int = 1) -> Iterator[Prepared]:
    """One of each kind of change, prepared; aborted after the block unless it has ended."""
    transaction = Prepared(raw, number, items.database.name)
    transaction.write({"insert": items.name, "documents": [{"_id": 4}]})
    transaction.write({"update": items.name, "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 5}}}]})
    transaction.write({"delete": items.name, "deletes": [{"q": {"_id": 2}, "limit": 1}]})
    assert transaction.prepare()["ok"] == 1.0
    try:
        yield transaction
    finally:
        transaction.abort()


BEFORE = [{"_id": 1, "x": 0}, {"_id": 2, "x": 0}, {"_id": 3, "x": 0}]
AFTER = [{"_id": 1, "x": 5}, {"_id": 3, "x": 0}, {"_id": 4}]


def found(items: Any) -> list[Document]:
    return list(items.find().sort("_id"))


class TestEntries:
    def test_a_commit_points_to_the_entry_that_prepared(
        self, server: RunningServer, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        before = now(client)
        with prepared(raw, items) as transaction:
            assert found(items) == BEFORE
            (prepare,) = entries(server, before)
            assert prepare["ts"] == transaction.time
            assert list(prepare["o"]) == ["applyOps", "prepare"]
            assert prepare["o"]["prepare"] is True
            assert [inner["op"] for inner in prepare["o"]["applyOps"]] == ["i", "u", "d"]
            assert prepare["prevOpTime"] == NULL_OPTIME
            assert transaction.commit()["ok"] == 1.0
            assert found(items) == AFTER
            (_, commit) = entries(server, before)
        assert commit["o"] == {"commitTransaction": 1, "commitTimestamp": transaction.time}
        assert commit["prevOpTime"] == {"ts": prepare["ts"], "t": prepare["t"]}
        assert (commit["op"], commit["ns"]) == ("c", "admin.$cmd")
        assert (commit["lsid"], commit["txnNumber"]) == (prepare["lsid"], prepare["txnNumber"])
        assert commit["ts"] > transaction.time

    def test_an_abort_points_to_it_too_and_changes_nothing(
        self, server: RunningServer, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        before = now(client)
        with prepared(raw, items) as transaction:
            assert transaction.abort()["ok"] == 1.0
        prepare, abort = entries(server, before)
        assert abort["o"] == {"abortTransaction": 1}
        assert abort["prevOpTime"] == {"ts": prepare["ts"], "t": prepare["t"]}
        assert found(items) == BEFORE

    def test_one_that_changed_nothing(
        self, server: RunningServer, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        before = now(client)
        transaction = Prepared(raw, database=items.database.name)
        assert transaction.run({"find": items.name})["ok"] == 1.0
        reply = transaction.prepare()
        assert reply["affectedNamespaces"] == []
        assert transaction.commit()["ok"] == 1.0
        prepare, _ = entries(server, before)
        assert prepare["o"] == {"applyOps": [], "prepare": True}

    def test_a_chain_is_linked_and_counted(
        self, server: RunningServer, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        large = "x" * (7 << 20)
        before = now(client)
        with items.watch() as stream:
            transaction = Prepared(raw, database=items.database.name)
            for number in range(11, 15):
                transaction.write({"insert": items.name, "documents": [{"_id": number, "text": large}]})
            assert transaction.prepare()["affectedNamespaces"] == [items.full_name]
            assert transaction.commit()["ok"] == 1.0
            shown = [next(stream)["documentKey"]["_id"] for _ in range(4)]
        first, second, commit = entries(server, before)
        assert first["o"]["partialTxn"] is True
        assert (second["o"]["prepare"], second["o"]["count"]) == (True, 4)
        assert second["prevOpTime"] == {"ts": first["ts"], "t": first["t"]}
        assert commit["prevOpTime"] == {"ts": second["ts"], "t": second["t"]}
        assert shown == [11, 12, 13, 14]

    def test_a_later_common_time_is_before_the_entry(
        self, server: RunningServer, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        before = now(client)
        with prepared(raw, items) as transaction:
            later = Timestamp(transaction.time.time + 5, 7)
            assert transaction.commit(later)["ok"] == 1.0
        _, commit = entries(server, before)
        assert commit["o"]["commitTimestamp"] == later
        assert commit["ts"] > later

    def test_config_transactions_has_the_state(
        self, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        def record() -> Document:
            (one,) = client.config.transactions.find({"_id.id": transaction.lsid["id"]})
            return one

        with prepared(raw, items) as transaction:
            assert record()["state"] == "prepared"
            assert record()["startOpTime"]["ts"] == transaction.time
            transaction.commit()
            assert (record()["state"], "startOpTime" in record()) == ("committed", False)
        with prepared(raw, items.database.others) as transaction:
            transaction.abort()
            assert record()["state"] == "aborted"


class TestStreams:
    def test_events_appear_with_the_commit(
        self, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        database = items.database
        database.command("collMod", items.name, changeStreamPreAndPostImages={"enabled": True})
        with items.watch(full_document_before_change="required", full_document="required") as stream:
            with prepared(raw, items) as transaction:
                items.insert_one({"_id": 50})
                assert next(stream)["documentKey"] == {"_id": 50}
                assert stream.try_next() is None
                commit = transaction.commit()
            events = [next(stream) for _ in range(3)]
        assert [event["operationType"] for event in events] == ["insert", "update", "delete"]
        assert {event["clusterTime"] for event in events} == {commit["operationTime"]}
        assert {event["txnNumber"] for event in events} == {1}
        assert {event["lsid"]["id"] for event in events} == {transaction.lsid["id"]}
        assert events[1]["fullDocumentBeforeChange"] == {"_id": 1, "x": 0}
        assert events[1]["fullDocument"] == {"_id": 1, "x": 5}
        assert events[2]["fullDocumentBeforeChange"] == {"_id": 2, "x": 0}

    def test_an_aborted_one_shows_nothing_and_leaves_no_images(
        self, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        items.database.command("collMod", items.name, changeStreamPreAndPostImages={"enabled": True})
        images = client.config["system.preimages"].count_documents({})
        with items.watch() as stream:
            with prepared(raw, items) as transaction:
                transaction.abort()
            items.insert_one({"_id": 60})
            assert next(stream)["documentKey"] == {"_id": 60}
        assert client.config["system.preimages"].count_documents({}) == images

    def test_a_stream_resumes_inside_of_it(
        self, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        with items.watch() as stream:
            with prepared(raw, items) as transaction:
                transaction.commit()
            first, second, third = [next(stream) for _ in range(3)]
        with items.watch(resume_after=first["_id"]) as stream:
            assert [next(stream), next(stream)] == [second, third]

    def test_its_time_is_shown_on_request(self, items: Any, raw: RawClient) -> None:
        pipeline = [{"$changeStream": {"showCommitTimestamp": True}}]
        cursor = items.aggregate(pipeline)
        with prepared(raw, items) as transaction:
            transaction.commit()
        assert next(cursor)["commitTimestamp"] == transaction.time
        cursor.close()

    def test_the_oplog_keeps_its_entries_until_it_has_ended(self) -> None:
        with running() as own, connected(own) as client, raw_client(own) as raw:
            client.shop.items.insert_many(BEFORE)
            with client.shop.items.watch() as stream, prepared(raw, client.shop.items) as transaction:
                for number in range(100, 110):
                    client.shop.others.insert_one({"_id": number})
                newest = now(client)
                own.call(own.server.truncate_oplog(newest.time << 32 | newest.inc))
                first = client.local["oplog.rs"].find_one()
                assert first is not None
                assert first["ts"] == transaction.time
                transaction.commit()
                assert [next(stream)["operationType"] for _ in range(3)] == ["insert", "update", "delete"]


class TestRules:
    def test_nothing_else_can_be_done_in_it(self, items: Any, raw: RawClient) -> None:
        with prepared(raw, items) as transaction:
            for command in (
                {"find": items.name},
                {"insert": items.name, "documents": [{"_id": 9}]},
                {"aggregate": items.name, "pipeline": [], "cursor": {}},
            ):
                reply = transaction.run(command)
                assert (reply["code"], reply["codeName"]) == (267, "PreparedTransactionInProgress")
                assert reply["errorLabels"] == [TRANSIENT]
            assert transaction.commit()["ok"] == 1.0
        assert found(items) == AFTER

    def test_its_session_cannot_be_used(self, items: Any, raw: RawClient) -> None:
        database = items.database.name
        insert = {"insert": items.name, "documents": [{"_id": 9}], "$db": database}
        with prepared(raw, items) as transaction:
            reply = statement(raw, transaction.lsid, 2, dict(insert), start=True)
            assert reply["code"] == 267
            reply = raw.call({**insert, "lsid": transaction.lsid, "txnNumber": Int64(2)})
            assert reply["code"] == 267
            assert transaction.commit()["ok"] == 1.0
        assert statement(raw, transaction.lsid, 2, insert, start=True)["ok"] == 1.0
        assert end(raw, transaction.lsid, 2, "abortTransaction")["ok"] == 1.0

    def test_repeated_commands_get_the_same_reply(
        self, server: RunningServer, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        before = now(client)
        with prepared(raw, items) as transaction:
            time = transaction.time
            assert transaction.prepare()["prepareTimestamp"] == time
            assert transaction.commit()["ok"] == transaction.commit()["ok"] == 1.0
            assert len(entries(server, before)) == 2
            assert transaction.prepare()["code"] == 256
            assert transaction.abort()["code"] == 256

    def test_an_aborted_one_does_not_exist(self, items: Any, raw: RawClient) -> None:
        with prepared(raw, items) as transaction:
            transaction.abort()
            for reply in (transaction.commit(), transaction.prepare(), transaction.abort()):
                assert (reply["code"], reply["errorLabels"]) == (251, [TRANSIENT])

    def test_commit_times(self, items: Any, raw: RawClient) -> None:
        with prepared(raw, items) as transaction:
            assert end(raw, transaction.lsid, 1, "commitTransaction")["code"] == 72
            assert transaction.commit(Timestamp(0, 0))["code"] == 72
            assert transaction.commit(Timestamp(transaction.time.time - 1, 1))["code"] == 72
            assert transaction.commit()["ok"] == 1.0
        plain = Prepared(raw, database=items.database.name)
        plain.write({"insert": items.name, "documents": [{"_id": 70}]})
        assert plain.commit(Timestamp(2**31, 1))["code"] == 72

    def test_where_it_cannot_be_run(self, client: MongoClient[Document], raw: RawClient) -> None:
        assert raw.call({"prepareTransaction": 1})["code"] == 125
        assert failure(client.shop.command, "prepareTransaction").code == 13
        reply = statement(raw, new_lsid(), 1, {"prepareTransaction": 1, "$db": "admin"}, start=True)
        assert reply["code"] == 263

    def test_other_transactions_conflict_and_other_writes_wait(
        self, client: MongoClient[Document], items: Any, raw: RawClient, server: RunningServer
    ) -> None:
        with prepared(raw, items) as transaction, raw_client(server) as waiting:
            other = Prepared(raw, database=items.database.name)
            reply = other.run({"update": items.name, "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 7}}}]})
            assert (reply["code"], reply["errorLabels"]) == (112, [TRANSIENT])
            update = {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}
            waiting.send({"update": items.name, "updates": [update], "$db": items.database.name})
            wait_for_blocked(client)
            transaction.commit()
            waiting.receive()
        assert found(items)[0] == {"_id": 1, "x": 6}

    def test_a_write_that_waited_for_the_open_one_continues_to_wait(
        self, client: MongoClient[Document], items: Any, raw: RawClient, server: RunningServer
    ) -> None:
        transaction = Prepared(raw, database=items.database.name)
        transaction.write({"delete": items.name, "deletes": [{"q": {"_id": 1}, "limit": 1}]})
        with raw_client(server) as waiting:
            update = {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}, "upsert": True}
            waiting.send({"update": items.name, "updates": [update], "$db": items.database.name})
            wait_for_blocked(client)
            transaction.prepare()
            wait_for_blocked(client)
            assert found(items) == BEFORE
            transaction.commit()
            waiting.receive()
        assert found(items)[0] == {"_id": 1, "x": 1}

    def test_a_drop_waits(self, client: MongoClient[Document], items: Any, raw: RawClient) -> None:
        with prepared(raw, items) as transaction:
            assert failure(items.database.command, "drop", items.name, maxTimeMS=50).code == 50
            transaction.abort()
        items.drop()
        assert found(items) == []

    def test_a_collection_that_it_creates(
        self, client: MongoClient[Document], database: Database[Document], raw: RawClient
    ) -> None:
        transaction = Prepared(raw, database=database.name)
        transaction.write({"create": "made"})
        transaction.write({"insert": "made", "documents": [{"_id": 1}]})
        assert transaction.prepare()["affectedNamespaces"] == [f"{database.name}.made"]
        assert database.list_collection_names() == []
        transaction.commit()
        assert found(database.made) == [{"_id": 1}]
        assert database.command("validate", "made")["valid"]


class TestPartsOfRetryableWrites:
    """A router runs a retryable write that needs several shards as a transaction of an internal session."""

    @pytest.fixture
    def inner(self, raw: RawClient, items: Any) -> Prepared:
        """A transaction that removes a document as statement 3 of its parent's write number 8."""
        transaction = Prepared(raw, 0, items.database.name)
        transaction.lsid |= {"txnNumber": Int64(8), "txnUUID": Binary(bytes(16), 4)}
        deletes = [{"q": {"_id": 1}, "limit": 1}]
        transaction.write({"delete": items.name, "deletes": deletes, "stmtId": 3})
        return transaction

    @staticmethod
    def parent(transaction: Prepared, items: Any) -> Document:
        """The client's statement, sent again; by now it would find another document."""
        lsid = {"id": transaction.lsid["id"]}
        update = {"q": {"x": 0}, "u": {"$inc": {"x": 1}}}
        return transaction.raw.call(
            {
                "update": items.name,
                "$db": items.database.name,
                "updates": [update],
                "lsid": lsid,
                "txnNumber": Int64(8),
                "stmtIds": [3],
            }
        )

    @pytest.mark.parametrize("is_prepared", [False, True])
    def test_the_write_is_not_executed_again(self, inner: Prepared, items: Any, is_prepared: bool) -> None:
        if is_prepared:
            inner.prepare()
            assert inner.commit()["ok"] == 1.0
        else:
            assert end(inner.raw, inner.lsid, 0, "commitTransaction")["ok"] == 1.0
        reply = self.parent(inner, items)
        assert (reply["n"], reply["nModified"], reply["retriedStmtIds"]) == (1, 1, [3])
        assert found(items) == BEFORE[1:]

    def test_an_aborted_write_is_executed(self, inner: Prepared, items: Any) -> None:
        inner.prepare()
        inner.abort()
        reply = self.parent(inner, items)
        assert (reply["n"], reply.get("retriedStmtIds")) == (1, None)
        assert found(items) == [{"_id": 1, "x": 1}, *BEFORE[1:]]

    def test_a_returned_document_is_returned_again(
        self, server: RunningServer, client: MongoClient[Document], items: Any, raw: RawClient
    ) -> None:
        before = now(client)
        inner = Prepared(raw, 0, items.database.name)
        inner.lsid |= {"txnNumber": Int64(8), "txnUUID": Binary(bytes(16), 4)}
        modify = {"findAndModify": items.name, "query": {"_id": 2}, "update": {"$inc": {"x": 5}}, "stmtId": 1}
        assert inner.run(dict(modify))["value"] == {"_id": 2, "x": 0}
        inner.prepare()
        inner.commit()
        (operation,) = entries(server, before)[0]["o"]["applyOps"]
        assert (operation["needsRetryImage"], operation["stmtId"]) == ("preImage", 1)
        parent = {"lsid": {"id": inner.lsid["id"]}, "txnNumber": Int64(8), "$db": items.database.name}
        reply = raw.call({**modify, **parent})
        assert (reply["value"], reply["retriedStmtId"]) == ({"_id": 2, "x": 0}, 1)
        assert items.find_one({"_id": 2}) == {"_id": 2, "x": 5}


class TestSurvival:
    def test_time_and_ended_sessions_do_not_end_it(self) -> None:
        with running() as own, connected(own) as client, raw_client(own) as raw:
            client.shop.items.insert_many(BEFORE)
            with prepared(raw, client.shop.items) as transaction:
                own.call(own.server.advance_clock(3600))
                client.admin.command("killAllSessions", [])
                client.admin.command("endSessions", [transaction.lsid])
                status = client.admin.command("serverStatus")["transactions"]
                assert (status["currentPrepared"], status["totalPrepared"]) == (1, 1)
                assert transaction.run({"find": "items"})["code"] == 267
                assert transaction.commit()["ok"] == 1.0
                assert client.admin.command("serverStatus")["transactions"]["currentPrepared"] == 0
            assert found(client.shop.items) == AFTER

    def test_another_primary_continues_with_it(self) -> None:
        with running(members=3) as own, connected(own, retryWrites=False) as client:
            client.shop.items.insert_many(BEFORE)
            with raw_client(own) as raw:
                transaction = Prepared(raw)
                transaction.write({"insert": "items", "documents": [{"_id": 4}]})
                transaction.prepare()
            own.call(own.server.first.step_down(60))
            wait_for(lambda: own.server.primary is not None)
            primary = own.server.primary
            assert primary is not None
            with socket.create_connection(("127.0.0.1", primary.port)) as endpoint:
                transaction.raw = RawClient(endpoint)
                assert transaction.commit()["ok"] == 1.0
            assert found(client.shop.items) == [*BEFORE, {"_id": 4}]

    @pytest.mark.parametrize("decision", ["commit", "abort"])
    def test_a_restart(self, tmp_path: Path, decision: str) -> None:
        with running(data=tmp_path) as own, connected(own) as client, raw_client(own) as raw:
            client.shop.items.insert_many(BEFORE)
            client.shop.items.create_index("x")
            transaction = Prepared(raw)
            transaction.write({"insert": "items", "documents": [{"_id": 4}]})
            transaction.write({"update": "items", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 5}}}]})
            transaction.write({"delete": "items", "deletes": [{"q": {"_id": 2}, "limit": 1}]})
            transaction.write({"create": "made"})
            transaction.write({"insert": "made", "documents": [{"_id": 1}]})
            transaction.prepare()
        with running(data=tmp_path) as own, connected(own) as client, raw_client(own) as raw:
            transaction.raw = raw
            items = client.shop.items
            assert transaction.run({"find": "items"})["code"] == 267
            # Its locks are held again, and the record key of its insert is not given to another document.
            update = {"q": {"_id": 1}, "u": {"$set": {"x": 9}}}
            refused = failure(client.shop.command, "update", "items", updates=[update], maxTimeMS=50)
            assert refused.code == 50
            items.insert_one({"_id": 5})
            assert found(items) == [*BEFORE, {"_id": 5}]
            if decision == "commit":
                assert transaction.commit()["ok"] == 1.0
                assert found(items) == [*AFTER, {"_id": 5}]
                assert found(client.shop.made) == [{"_id": 1}]
            else:
                assert transaction.abort()["ok"] == 1.0
                assert found(items) == [*BEFORE, {"_id": 5}]
                assert "made" not in client.shop.list_collection_names()
            items.update_one({"_id": 1}, {"$set": {"x": 9}})
            assert client.shop.command("validate", "items")["valid"]
        with running(data=tmp_path) as own, connected(own) as client, raw_client(own) as raw:
            transaction.raw = raw
            assert transaction.commit().get("code") == (None if decision == "commit" else 251)
            assert client.shop.items.find_one({"_id": 1}) == {"_id": 1, "x": 9}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    with served(tmp_path_factory.mktemp("killed"), "--log-level", "warning") as started:
        yield started
        assert started.faults() == []


def test_a_kill(process: ServedProcess) -> None:
    """Killed after the prepare: a stream from before shows the whole transaction with its images."""
    with process.client() as client:
        shop = client.shop
        shop.create_collection("items", changeStreamPreAndPostImages={"enabled": True})
        shop.items.insert_many(BEFORE)
        stream = shop.items.watch(full_document_before_change="required")
        session = client.start_session(causal_consistency=False)
        fields = {"txnNumber": Int64(7), "autocommit": False}
        insert = {"insert": "items", "documents": [{"_id": 4}], "startTransaction": True, **fields}
        shop.command(insert, session=session)
        delete = {"delete": "items", "deletes": [{"q": {"_id": 2}, "limit": 1}], **fields}
        shop.command(delete, session=session)
        prepared = client.admin.command({"prepareTransaction": 1, **fields}, session=session)
        process.kill()
        process.start()
        assert found(shop.items) == BEFORE
        time = prepared["prepareTimestamp"]
        commit = {"commitTransaction": 1, "commitTimestamp": time, **fields}
        client.admin.command(commit, session=session)
        events = [next(stream), next(stream)]
        assert [event["operationType"] for event in events] == ["insert", "delete"]
        assert events[1]["fullDocumentBeforeChange"] == {"_id": 2, "x": 0}
        stream.close()
        assert found(shop.items) == [{"_id": 1, "x": 0}, {"_id": 3, "x": 0}, {"_id": 4}]
