"""Transactions on routers: one state of all shards, and the same outcome on all of them."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, PyMongoError

from tailrace.bson.documents import decode
from tailrace.events.stages.plan import END_OF_TRANSACTION_FLAG
from tailrace.testing.in_thread import Document
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import wait_for
from tests.mongod.server.served import ServedProcess, served
from tests.mongod.server.transacting import TRANSIENT, end, failure, new_lsid, statement

SEED = 61


def two_databases(cluster: ShardedCluster) -> "MongoClient[Document]":
    """A client of a new cluster with a database on each shard."""
    client = cluster.client(0)
    for name, shard in (("left", "shard0"), ("right", "shard1")):
        client.admin.command("enableSharding", name, primaryShard=shard)
        client[name].create_collection("items")
    return client


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2, routers=2) as started:
        two_databases(started)
        yield started


@pytest.fixture(scope="module")
def shared_client(cluster: ShardedCluster) -> "MongoClient[Document]":
    return cluster.client(0)


@pytest.fixture
def client(shared_client: "MongoClient[Document]") -> "MongoClient[Document]":
    """A router; `left.items` is on shard0 and `right.items` on shard1, each with two documents."""
    for database in (shared_client.left, shared_client.right):
        database.drop_collection("items")
        database.items.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
    return shared_client


def write_both(client: "MongoClient[Document]", session: ClientSession, number: int = 10) -> None:
    client.left.items.insert_one({"_id": number}, session=session)
    client.right.items.insert_one({"_id": number}, session=session)


def ids(client: "MongoClient[Document]", session: ClientSession | None = None) -> list[list[int]]:
    """The documents on both shards."""
    both = (client.left.items, client.right.items)
    return [[document["_id"] for document in items.find(session=session).sort("_id")] for items in both]


@contextmanager
def raw_router(cluster: ShardedCluster, number: int) -> Iterator[RawClient]:
    address = ("127.0.0.1", cluster.cluster.routers[number].port)
    with socket.create_connection(address, timeout=20) as endpoint:
        yield RawClient(endpoint)


class Tail:
    """The entries that shards log from now on."""

    def __init__(self, cluster: ShardedCluster) -> None:
        self._cluster = cluster
        self._seen = {shard: len(cluster.oplog(shard)) for shard in cluster.shards}

    def entries(self, shard: str) -> list[Document]:
        new = self._cluster.oplog(shard)[self._seen[shard] :]
        return [entry for entry in new if entry["op"] != "n"]


class TestCommit:
    def test_changes_on_several_shards_become_visible_together(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        with client.start_session() as session, session.start_transaction():
            write_both(client, session)
            client.left.items.update_one({"_id": 1}, {"$set": {"n": 5}}, session=session)
            client.right.items.delete_one({"_id": 2}, session=session)
            assert ids(client, session) == [[1, 2, 10], [1, 10]]
            assert ids(client) == [[1, 2], [1, 2]]
            assert ids(cluster.client(1)) == [[1, 2], [1, 2]]
        assert ids(cluster.client(1)) == [[1, 2, 10], [1, 10]]
        assert client.left.items.find_one({"_id": 1}) == {"_id": 1, "n": 5}

    def test_the_shards_prepare_and_commit_at_one_time(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        tail = Tail(cluster)
        with client.start_session() as session, session.start_transaction():
            write_both(client, session)
        logged = [tail.entries(shard) for shard in ("shard0", "shard1")]
        for prepare, commit in logged:
            assert [inner["op"] for inner in prepare["o"]["applyOps"]] == ["i"]
            assert prepare["o"]["prepare"] is True
            assert commit["prevOpTime"] == {"ts": prepare["ts"], "t": prepare["t"]}
            assert commit["ts"] > commit["o"]["commitTimestamp"] >= prepare["ts"]
        first, second = (commit for _, commit in logged)
        assert first["o"] == second["o"]
        assert first["ts"] != second["ts"]
        assert (first["lsid"], first["txnNumber"]) == (second["lsid"], second["txnNumber"])
        # The decision is removed after the reply, by a job that is before this one in the queue.
        cluster.call(cluster.cluster.config.store.write(lambda _unit: None))
        assert list(client.config.transaction_coordinators.find()) == []

    def test_one_shard_with_changes_needs_no_second_phase(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        tail = Tail(cluster)
        with client.start_session() as session, session.start_transaction():
            client.left.items.insert_one({"_id": 10}, session=session)
            assert ids(client, session) == [[1, 2, 10], [1, 2]]
        (entry,) = tail.entries("shard0")
        assert list(entry["o"]) == ["applyOps"]
        assert tail.entries("shard1") == []

    def test_a_transaction_that_only_reads_logs_nothing(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        tail = Tail(cluster)
        with client.start_session() as session, session.start_transaction():
            assert ids(client, session) == [[1, 2], [1, 2]]
        assert tail.entries("shard0") == tail.entries("shard1") == []

    def test_a_sharded_collection(self, client: "MongoClient[Document]") -> None:
        client.left.drop_collection("spread")
        client.admin.command("shardCollection", "left.spread", key={"_id": "hashed"})
        spread = client.left.spread
        with client.start_session() as session, session.start_transaction():
            spread.insert_many([{"_id": number} for number in range(40)], session=session)
            spread.update_many({}, {"$set": {"x": 1}}, session=session)
            assert spread.delete_many({"_id": {"$gte": 30}}, session=session).deleted_count == 10
            found = spread.aggregate([{"$group": {"_id": "$x", "n": {"$sum": 1}}}], session=session)
            assert list(found) == [{"_id": 1, "n": 30}]
            assert spread.count_documents({}) == 0
        assert spread.count_documents({"x": 1}) == 30

    def test_a_collection_created_in_a_transaction(self, client: "MongoClient[Document]") -> None:
        client.right.drop_collection("made")
        with client.start_session() as session, session.start_transaction():
            client.left.items.insert_one({"_id": 10}, session=session)
            client.right.create_collection("made", session=session)
            client.right.made.insert_one({"_id": 1}, session=session)
            assert list(client.right.made.find(session=session)) == [{"_id": 1}]
            assert "made" not in client.right.list_collection_names()
        assert list(client.right.made.find()) == [{"_id": 1}]


class TestStreams:
    def test_a_router_shows_the_events_of_all_shards(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        with client.watch() as stream:
            with client.start_session() as session, session.start_transaction():
                write_both(client, session)
            client.left.items.insert_one({"_id": 30})
            first, second, last = (next(stream) for _ in range(3))
        assert {first["ns"]["db"], second["ns"]["db"]} == {"left", "right"}
        assert last["documentKey"] == {"_id": 30}
        assert (first["lsid"], first["txnNumber"]) == (second["lsid"], second["txnNumber"])
        assert first["clusterTime"] < second["clusterTime"]
        with cluster.client(1).watch(resume_after=first["_id"]) as stream:
            assert next(stream) == second

    def test_a_shard_shows_its_own(self, cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
        with cluster.shard_client("shard1").watch() as stream:
            with client.start_session() as session, session.start_transaction():
                write_both(client, session)
            assert next(stream)["ns"] == {"db": "right", "coll": "items"}

    def test_its_end_is_an_event_if_the_parameter_is_on(self) -> None:
        with ShardedCluster(shards=2, parameters={END_OF_TRANSACTION_FLAG: True}) as own:
            client = two_databases(own)
            with client.watch(show_expanded_events=True) as stream:
                with client.start_session() as session, session.start_transaction():
                    write_both(client, session)
                events = [next(stream) for _ in range(3)]
        assert [event["operationType"] for event in events] == ["insert", "insert", "endOfTransaction"]
        assert {event["txnNumber"] for event in events} == {1}


class TestSnapshot:
    def test_it_is_taken_at_the_beginning_on_all_shards(self, client: "MongoClient[Document]") -> None:
        with client.start_session() as session, session.start_transaction():
            assert client.left.items.count_documents({}, session=session) == 2
            client.left.items.insert_one({"_id": 20})
            client.right.items.insert_one({"_id": 20})
            assert ids(client, session) == [[1, 2], [1, 2]]

    def test_a_document_changed_since_is_a_conflict(self, client: "MongoClient[Document]") -> None:
        with client.start_session() as session:
            session.start_transaction()
            client.left.items.insert_one({"_id": 10}, session=session)
            client.right.items.update_one({"_id": 1}, {"$inc": {"n": 1}})
            refused = failure(client.right.items.update_one, {"_id": 1}, {"$inc": {"n": 1}}, session=session)
            assert refused.code == 112
            assert refused.has_error_label(TRANSIENT)
            session.abort_transaction()
        assert ids(client) == [[1, 2], [1, 2]]

    def test_at_cluster_time(self, cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
        def begin(time: Timestamp) -> Document:
            concern = {"level": "snapshot", "atClusterTime": time}
            find = {"find": "items", "$db": "right", "readConcern": concern}
            with raw_router(cluster, 0) as raw:
                return statement(raw, new_lsid(), 1, find, start=True)

        now = client.admin.command("ping")["operationTime"]
        assert len(begin(now)["cursor"]["firstBatch"]) == 2
        client.left.items.insert_one({"_id": 20})
        client.right.items.delete_many({})
        assert len(begin(now)["cursor"]["firstBatch"]) == 2
        assert begin(Timestamp(now.time + 1000, 1))["code"] == 72


class TestAbort:
    def test_an_abort_frees_all_shards(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        tail = Tail(cluster)
        with client.start_session() as session:
            session.start_transaction()
            write_both(client, session)
            session.abort_transaction()
        assert tail.entries("shard0") == tail.entries("shard1") == []
        with client.start_session() as session, session.start_transaction():
            write_both(client, session)
        assert ids(client) == [[1, 2, 10], [1, 2, 10]]

    def test_an_error_on_one_shard_ends_it_on_all(self, client: "MongoClient[Document]") -> None:
        with client.start_session() as session:
            session.start_transaction()
            client.left.items.insert_one({"_id": 10}, session=session)
            with pytest.raises(DuplicateKeyError):
                client.right.items.insert_one({"_id": 1}, session=session)
            refused = failure(client.left.items.find_one, {}, session=session)
            assert (refused.code, refused.has_error_label(TRANSIENT)) == (251, True)
            session.abort_transaction()
        client.left.items.insert_one({"_id": 10})
        assert ids(client) == [[1, 2, 10], [1, 2]]

    def test_a_shard_that_has_aborted_it(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        for end_it in ("find", "commit"):
            with client.start_session() as session:
                session.start_transaction()
                write_both(client, session)
                cluster.shard_client("shard1").admin.command("killAllSessions", [])
                work = session.commit_transaction if end_it == "commit" else partial(ids, client, session)
                refused = failure(work)
                assert (refused.code, refused.has_error_label(TRANSIENT)) == (251, True)
        assert ids(client) == [[1, 2], [1, 2]]
        client.left.items.insert_one({"_id": 10})
        client.right.items.insert_one({"_id": 10})

    def test_expiry_aborts_it_on_all_shards(self) -> None:
        with ShardedCluster(shards=2) as own:
            client = two_databases(own)
            with client.start_session() as session:
                session.start_transaction()
                write_both(client, session)
                own.call(own.cluster.routers[0].advance_clock(61))
                client.left.items.insert_one({"_id": 10})
                client.right.items.insert_one({"_id": 10})
                assert failure(session.commit_transaction).code == 251

    def test_a_shard_that_cannot_prepare(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        tail = Tail(cluster)
        data = {"failCommands": ["prepareTransaction"], "errorCode": 112}
        with client.start_session() as session:
            session.start_transaction()
            write_both(client, session)
            with cluster.fail_point(data=data, mode={"times": 1}, shard="shard1"):
                refused = failure(session.commit_transaction)
            assert refused.code == 112
            again = failure(session.commit_transaction)
            assert (again.code, again.has_error_label(TRANSIENT)) == (251, True)
        prepare, abort = tail.entries("shard0")
        assert abort["o"] == {"abortTransaction": 1}
        assert abort["prevOpTime"]["ts"] == prepare["ts"]
        assert tail.entries("shard1") == []
        client.left.items.insert_one({"_id": 10})
        client.right.items.insert_one({"_id": 10})

    def test_a_shard_that_gets_the_decision_late(
        self, cluster: ShardedCluster, client: "MongoClient[Document]"
    ) -> None:
        with client.start_session() as session:
            session.start_transaction()
            write_both(client, session)
            data = {"failCommands": ["commitTransaction"], "closeConnection": True}
            with cluster.fail_point(data=data, mode={"times": 3}, shard="shard1"):
                session.commit_transaction()
        assert ids(client) == [[1, 2, 10], [1, 2, 10]]


class TestMigrations:
    @pytest.fixture
    def spread(self, client: "MongoClient[Document]") -> Any:
        """A collection with the keys below 0 on shard0, and the others on shard1."""
        client.left.drop_collection("spread")
        client.admin.command("shardCollection", "left.spread", key={"k": 1})
        client.admin.command("split", "left.spread", middle={"k": 0})
        client.admin.command("moveChunk", "left.spread", find={"k": 0}, to="shard1")
        client.left.spread.insert_many([{"_id": k, "k": k} for k in range(-2, 2)])
        return client.left.spread

    def test_a_range_moved_meanwhile_is_read_from_its_old_shard(
        self, client: "MongoClient[Document]", spread: Any
    ) -> None:
        with client.start_session() as session:
            session.start_transaction()
            assert client.left.items.count_documents({}, session=session) == 2
            client.admin.command("moveChunk", "left.spread", find={"k": -1}, to="shard1", _waitForDelete=True)
            assert [found["k"] for found in spread.find(session=session).sort("k")] == [-2, -1, 0, 1]
            refused = failure(spread.update_one, {"k": -1}, {"$set": {"x": 1}}, session=session)
            assert (refused.code, refused.has_error_label(TRANSIENT)) == (246, True)
            session.abort_transaction()
        with client.start_session() as session, session.start_transaction():
            spread.update_one({"k": -1}, {"$set": {"x": 1}}, session=session)
        assert spread.find_one({"x": 1}) == {"_id": -1, "k": -1, "x": 1}

    def test_a_range_that_was_written_to_is_not_moved_before_the_end(
        self, cluster: ShardedCluster, client: "MongoClient[Document]", spread: Any
    ) -> None:
        move = {"moveChunk": "left.spread", "find": {"k": -1}, "to": "shard1", "_waitForDelete": True}
        with raw_router(cluster, 1) as raw, client.start_session() as session:
            session.start_transaction()
            spread.insert_one({"_id": -5, "k": -5}, session=session)
            raw.send(move)
            wait_for(lambda: is_under_way(cluster, "moveChunk"))
            # The move waits for the transaction; the transaction does not wait for the move.
            spread.insert_one({"_id": 5, "k": 5}, session=session)
            spread.update_one({"k": -2}, {"$set": {"x": 1}}, session=session)
            assert spread.count_documents({}, session=session) == 6
            session.commit_transaction()
            assert decode(raw.receive().document)["ok"] == 1.0
        assert [found["_id"] for found in spread.find().sort("_id")] == [-5, -2, -1, 0, 1, 5]
        owners = {chunk["shard"] for chunk in client.config.chunks.find()}
        assert owners == {"shard1"}
        assert cluster.shard_client("shard0").left.spread.count_documents({}) == 0


def is_under_way(cluster: ShardedCluster, command: str) -> bool:
    operations = cluster.client(1).admin.command("currentOp")["inprog"]
    return any(command in operation.get("command", ()) for operation in operations)


def begun(raw: RawClient, lsid: Document, *databases: str) -> Document:
    """Begin a transaction with inserts in some databases; returns its recovery token."""
    reply: Document = {}
    for number, name in enumerate(databases):
        insert = {"insert": "items", "documents": [{"_id": 10}], "$db": name}
        reply = statement(raw, lsid, 1, insert, start=number == 0)
        assert reply["ok"] == 1.0, reply
    token: Document = reply["recoveryToken"]
    return token


class TestRetry:
    """With raw commands, because drivers choose the router themselves."""

    @pytest.fixture
    def raw(self, cluster: ShardedCluster, client: "MongoClient[Document]") -> Iterator[RawClient]:
        with raw_router(cluster, 0) as opened:
            yield opened

    @pytest.fixture
    def other(self, cluster: ShardedCluster) -> Iterator[RawClient]:
        with raw_router(cluster, 1) as opened:
            yield opened

    @pytest.mark.parametrize("databases", [("right",), ("right", "left")])
    def test_any_router_can_find_out_how_it_ended(
        self, raw: RawClient, other: RawClient, databases: tuple[str, ...]
    ) -> None:
        lsid = new_lsid()
        token = begun(raw, lsid, *databases)
        assert token == {"recoveryShardId": "shard1"}
        for router in (raw, raw, other, other):
            assert end(router, lsid, 1, "commitTransaction", recoveryToken=token)["ok"] == 1.0
        assert end(other, lsid, 1, "abortTransaction", recoveryToken=token)["code"] == 256

    def test_a_transaction_without_its_router_is_aborted(
        self, client: "MongoClient[Document]", raw: RawClient, other: RawClient
    ) -> None:
        lsid = new_lsid()
        token = begun(raw, lsid, "right")
        reply = end(other, lsid, 1, "commitTransaction", recoveryToken=token)
        assert (reply["code"], reply["errorLabels"]) == (251, [TRANSIENT])
        client.right.items.insert_one({"_id": 10})
        assert end(raw, lsid, 1, "commitTransaction", recoveryToken=token)["code"] == 251
        assert ids(client) == [[1, 2], [1, 2, 10]]

    def test_a_transaction_on_several_shards_without_its_router_is_aborted(
        self, client: "MongoClient[Document]", raw: RawClient, other: RawClient
    ) -> None:
        lsid = new_lsid()
        token = begun(raw, lsid, "right", "left")
        assert end(other, lsid, 1, "commitTransaction", recoveryToken=token)["code"] == 251
        assert end(raw, lsid, 1, "commitTransaction", recoveryToken=token)["code"] == 251
        assert ids(client) == [[1, 2], [1, 2]]

    def test_without_a_token_the_transaction_is_unknown(
        self, client: "MongoClient[Document]", raw: RawClient, other: RawClient
    ) -> None:
        lsid = new_lsid()
        begun(raw, lsid, "right")
        assert end(other, lsid, 1, "commitTransaction")["code"] == 251
        assert end(raw, lsid, 1, "commitTransaction")["ok"] == 1.0
        assert ids(client) == [[1, 2], [1, 2, 10]]

    def test_an_invalid_token(self, raw: RawClient) -> None:
        for token, code in (({}, 251), ({"recoveryShardId": "nowhere"}, 251), ({"recoveryShardId": 5}, 14)):
            assert end(raw, new_lsid(), 1, "commitTransaction", recoveryToken=token)["code"] == code

    def test_clients_cannot_choose_the_time(self, raw: RawClient) -> None:
        lsid = new_lsid()
        begun(raw, lsid, "right")
        reply = end(raw, lsid, 1, "commitTransaction", commitTimestamp=Timestamp(2**31, 1))
        assert reply["code"] == 72
        assert end(raw, lsid, 1, "prepareTransaction")["code"] == 59


def test_sums_stay_the_same(cluster: ShardedCluster, client: "MongoClient[Document]") -> None:
    """Transfers between shards through both routers, while readers sum: every sum is the initial one."""
    rounds, writers = 25, 3
    problems: list[str] = []
    done = threading.Event()

    def transfer(number: int) -> None:
        rng = random.Random(SEED + number)
        own = cluster.client(number % 2)

        def work(session: ClientSession) -> None:
            giver, taker = rng.sample([own.left.items, own.right.items], 2)
            amount = rng.randint(1, 9)
            giver.update_one({"_id": rng.randint(1, 2)}, {"$inc": {"n": -amount}}, session=session)
            taker.update_one({"_id": rng.randint(1, 2)}, {"$inc": {"n": amount}}, session=session)

        try:
            for _ in range(rounds):
                with own.start_session() as session:
                    session.with_transaction(work)
        except (PyMongoError, AssertionError) as error:
            problems.append(f"{SEED=}: {error}")

    def add_up() -> None:
        own = cluster.client(1)
        while not done.is_set():
            with own.start_session() as session, session.start_transaction():
                found = [*own.left.items.find(session=session), *own.right.items.find(session=session)]
            if sum(document["n"] for document in found) != 0:
                problems.append(f"{SEED=}: {found}")

    transfers = [threading.Thread(target=transfer, args=(number,)) for number in range(writers)]
    reader = threading.Thread(target=add_up)
    for thread in (*transfers, reader):
        thread.start()
    for thread in transfers:
        thread.join()
    done.set()
    reader.join()
    assert problems == []


def shard_client(router: "MongoClient[Document]", name: str) -> "MongoClient[Document]":
    (found,) = [s for s in router.admin.command("listShards")["shards"] if s["_id"] == name]
    replica_set, _, host = found["host"].partition("/")
    return MongoClient(f"mongodb://{host}/?replicaSet={replica_set}", serverSelectionTimeoutMS=30_000)


DONE: dict[str, Document] = {
    "prepareTransaction": {"o.prepare": True},
    "commitTransaction": {"o.commitTransaction": 1},
}
"""What a shard logs when it has done its part"""


@contextmanager
def raw_client(process: ServedProcess) -> Iterator[RawClient]:
    host, _, port = process.uri.removeprefix("mongodb://").rstrip("/").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as endpoint:
        yield RawClient(endpoint)


def statement_fields(lsid: Document) -> Document:
    return {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")


@pytest.mark.parametrize("phase", DONE)
def test_a_kill_between_the_phases(folder: Path, phase: str) -> None:
    """One shard has committed and the other has not: the stored decision determines both after a restart."""
    options = ("--shards", "2", "--log-level", "warning")
    lsid = new_lsid()
    with served(folder, *options) as process, process.client() as client:
        for name, shard in (("left", "shard0"), ("right", "shard1")):
            client.admin.command("enableSharding", name, primaryShard=shard)
            client[name].drop_collection("items")
            client[name].create_collection("items")
        with client.watch() as stream:
            start = stream.resume_token
        with (
            raw_client(process) as raw,
            shard_client(client, "shard0") as first,
            shard_client(client, "shard1") as second,
        ):
            token = begun(raw, lsid, "left", "right")
            block = {"failCommands": [phase], "blockConnection": True, "blockTimeMS": 60_000}
            point = {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": block}
            entered = second.admin.command(point)["count"] + 1
            raw.send({"commitTransaction": 1, **statement_fields(lsid), "recoveryToken": token})
            waiting = {"waitForFailPoint": "failCommand", "timesEntered": entered, "maxTimeMS": 20_000}
            second.admin.command(waiting)
            wait_for(lambda: first.local["oplog.rs"].find_one(DONE[phase]) is not None)
    is_decided = phase == "commitTransaction"
    with served(folder, *options) as process, process.client() as client:
        expected = [{"_id": 10}] if is_decided else []
        assert [list(client[name].items.find()) for name in ("left", "right")] == [expected, expected]
        with raw_client(process) as raw:
            reply = end(raw, lsid, 1, "commitTransaction", recoveryToken=token)
        assert reply.get("code") == (None if is_decided else 251)
        assert list(client.config.transaction_coordinators.find()) == []
        # Nothing is locked any more.
        for name in ("left", "right"):
            client[name].items.update_one({"_id": 10}, {"$set": {"x": 1}}, upsert=True)
        with client.watch(resume_after=start) as stream:
            events = [next(stream) for _ in range(4 if is_decided else 2)]
        shown = [(event["operationType"], "txnNumber" in event) for event in events]
        updates = [("update", False)] * 2
        assert shown == ([("insert", True)] * 2 + updates if is_decided else [("insert", False)] * 2)
