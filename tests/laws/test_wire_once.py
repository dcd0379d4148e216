"""Once: the server is killed at any moment; nothing acknowledged is lost, no event is missing or doubled.

Clients write all the time through PyMongo, which retries writes without an answer; a watcher resumes with
its last token. At the end the events that it read, those of a stream from the beginning, the events that the
local engine makes of the oplog, and the documents have to agree.
"""

import random
import threading
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError

from tailrace.bson import documents as bsondocs
from tailrace.events.scope import Scope
from tests.laws.law_seeds import BASE_SEED
from tests.laws.wire_streams import WireStream, oplog_of, time_of
from tests.mongod.server.served import ServedProcess, served
from tests.support.client_workload import RAW_OPTIONS
from tests.support.folding import Fold
from tests.support.history import Documents, History, identity, timestamp_of
from tests.support.streams import Stream, token_of

Document = dict[str, Any]
WRITERS = 3
SECONDS = 60
SPEC = {"showRawUpdateDescription": True}
SINGLE, BATCHES, LEFT, RIGHT, COUNTERS = "single", "batches", "left", "right", "counters"


class Journal:
    """The writes that clients tried, and those that the server acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, list[str]] = {SINGLE: [], BATCHES: [], LEFT: [], RIGHT: []}
        self.attempted: dict[str, set[str]] = {SINGLE: set(), BATCHES: set(), LEFT: set(), RIGHT: set()}
        self.increments: Counter[str] = Counter()
        self.doubtful: Counter[str] = Counter()
        self._number = 0
        self._changed = threading.Condition()

    def acknowledge(self, **written: list[str]) -> None:
        with self._changed:
            for collection, ids in written.items():
                self.acknowledged[collection] += ids
            self._number += 1
            self._changed.notify_all()

    def wait_for(self, more: int) -> None:
        """Wait until `more` further writes are acknowledged."""
        with self._changed:
            wanted = self._number + more
            assert self._changed.wait_for(lambda: self._number >= wanted, SECONDS), "no write is acknowledged"


class Writer(threading.Thread):
    """Writes until `end` is called; every write has its own name."""

    def __init__(self, name: str, seed: int, process: ServedProcess, journal: Journal) -> None:
        super().__init__(name=name)
        self._rng = random.Random(seed)
        self._process = process
        self._journal = journal
        self._ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._process.client(w="majority") as client:
                number = 0
                while not self._ending.is_set():
                    number += 1
                    write = self._rng.choice((self._insert, self._batch, self._count, self._transact))
                    write(client, f"{self.name}-{number}")
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._ending.set()

    def _insert(self, client: "MongoClient[Document]", name: str) -> None:
        self._journal.attempted[SINGLE].add(name)
        try:
            client.once[SINGLE].insert_one({"_id": name})
        except PyMongoError as error:
            _must_be_lost_connection(error)
            return
        self._journal.acknowledge(**{SINGLE: [name]})

    def _batch(self, client: "MongoClient[Document]", name: str) -> None:
        names = [f"{name}-{number}" for number in range(self._rng.randrange(2, 20))]
        self._journal.attempted[BATCHES].update(names)
        try:
            client.once[BATCHES].insert_many([{"_id": each} for each in names])
        except PyMongoError as error:
            _must_be_lost_connection(error)
            return
        self._journal.acknowledge(**{BATCHES: names})

    def _count(self, client: "MongoClient[Document]", _name: str) -> None:
        """Increment a counter, which shows a write that was executed twice."""
        try:
            client.once[COUNTERS].update_one({"_id": self.name}, {"$inc": {"n": 1}}, upsert=True)
        except PyMongoError as error:
            _must_be_lost_connection(error)
            self._journal.doubtful[self.name] += 1
            return
        self._journal.increments[self.name] += 1
        self._journal.acknowledge()

    def _transact(self, client: "MongoClient[Document]", name: str) -> None:
        self._journal.attempted[LEFT].add(name)
        self._journal.attempted[RIGHT].add(name)

        def work(session: ClientSession) -> None:
            client.once[LEFT].insert_one({"_id": name}, session=session)
            client.once[RIGHT].insert_one({"_id": name}, session=session)

        try:
            with client.start_session() as session:
                session.with_transaction(work)
        except PyMongoError as error:
            _must_be_lost_connection(error)
            return
        self._journal.acknowledge(**{LEFT: [name], RIGHT: [name]})


def _must_be_lost_connection(error: PyMongoError) -> None:
    """Raise errors of a server that answers, except for a transaction whose server was killed."""
    if isinstance(error, OperationFailure) and not error.has_error_label("TransientTransactionError"):
        raise error


class Watcher(threading.Thread):
    """Reads the cluster's stream, and resumes with its token after every lost connection."""

    def __init__(self, seed: int, process: ServedProcess, start: Timestamp) -> None:
        super().__init__(name="watcher")
        self._rng = random.Random(seed)
        self._process = process
        self._start_time = start
        self._end: Timestamp | None = None
        self.events: list[bytes] = []
        self.openings = 0
        self.error: BaseException | None = None

    def finish(self, end: Timestamp) -> None:
        """Let `run` return when everything up to this time is read."""
        self._end = end

    def run(self) -> None:
        try:
            with MongoClient(
                self._process.uri, serverSelectionTimeoutMS=1000, document_class=RAW_OPTIONS.document_class
            ) as client:
                token: Any = None
                while not self._is_finished(token):
                    token = self._follow(client, token)
        except BaseException as error:
            self.error = error

    def _is_finished(self, token: Any) -> bool:
        return self._end is not None and token is not None and time_of(_decoded(token)) >= self._end

    def _follow(self, client: "MongoClient[Any]", token: Any) -> Any:
        """Read until the connection is lost or everything is read; return the token to resume with."""
        start = {"start_at_operation_time": self._start_time} if token is None else {"resume_after": token}
        size = self._rng.choice((1, 10, None))
        try:
            with client.watch(batch_size=size, max_await_time_ms=100, **start) as stream:
                self.openings += 1
                while not self._is_finished(token):
                    event = stream.try_next()
                    if event is not None:
                        self.events.append(bytes(event.raw))
                    # With size 1 the event's token, otherwise the position, which may be later.
                    token = event["_id"] if event is not None and size == 1 else stream.resume_token or token
        except PyMongoError as error:
            if isinstance(error, OperationFailure):
                raise
        return token


def _decoded(token: Any) -> Document:
    return bsondocs.decode(bytes(token.raw))


def kill_and_compare(seed: int, rounds: int, folder: Path, shards: int = 0) -> None:
    """Kill the server `rounds` times, then compare."""
    rng = random.Random(seed)
    journal = Journal()
    cluster = ("--shards", str(shards)) if shards else ()
    with served(folder, "--log-level", "warning", *cluster) as process:
        with process.client() as client:
            if shards:
                for name in (BATCHES, LEFT, COUNTERS):
                    client.admin.command("shardCollection", f"once.{name}", key={"_id": "hashed"})
            start = client.admin.command("appendOplogNote", data={})["operationTime"]
        watcher = Watcher(seed, process, start)
        writers = [Writer(f"w{n}", seed + n, process, journal) for n in range(WRITERS)]
        threads: list[Writer | Watcher] = [*writers, watcher]
        for thread in threads:
            thread.start()
        try:
            for _ in range(rounds):
                journal.wait_for(rng.randrange(1, 120))
                process.kill()
                process.start()
            journal.wait_for(10)
        finally:
            for writer in writers:
                writer.end()
                writer.join(SECONDS)
            with process.client() as client:
                watcher.finish(client.admin.command("appendOplogNote", data={})["operationTime"])
            watcher.join(SECONDS)
        assert [thread.error for thread in threads] == [None] * len(threads)
        assert not any(thread.is_alive() for thread in threads)
        with process.client() as client:
            compare(client, journal, watcher, start)
            if not shards:  # a shard whose port was taken has begun another term
                assert client.admin.command("replSetGetStatus")["term"] == rounds + 1
        assert process.stop() == 0
        assert process.faults() == []


def compare(client: "MongoClient[Any]", journal: Journal, watcher: Watcher, start: Timestamp) -> None:
    end = client.admin.command("appendOplogNote", data={})["operationTime"]
    content = documents_of(client)
    found = {name: {bsondocs.decode(raw)["_id"] for raw in content[f"once.{name}"].values()} for name in
             (SINGLE, BATCHES, LEFT, RIGHT)}  # fmt: skip
    for name, ids in found.items():
        assert ids >= set(journal.acknowledged[name]), f"acknowledged and lost in {name}"
        assert ids <= journal.attempted[name]
    assert found[LEFT] == found[RIGHT]
    for document in client.once[COUNTERS].find():
        counted = journal.increments[document["_id"]]
        assert counted <= document["n"] <= counted + journal.doubtful[document["_id"]]

    tokens = [token_of(event)["_data"] for event in watcher.events]
    assert all(earlier < later for earlier, later in pairwise(tokens))
    plain = WireStream(client, "", {"startAtOperationTime": start})
    assert watcher.events == plain.events(end)

    spec = {**SPEC, "startAtOperationTime": start}
    events = WireStream(client, "", spec).events(end)
    logs = [oplog_at(uri) for uri in shard_uris(client)]
    history = History(0, sorted(chain(*logs), key=timestamp_of), [], {}, {})
    assert events == Stream(history, Scope.cluster(), spec).events(logs)
    fold = Fold({})
    for event in events:
        fold.apply(event)
    assert fold.content() == content
    for name in content:
        assert client.once.command("validate", name.partition(".")[2])["valid"]


def shard_uris(client: "MongoClient[Any]") -> list[str]:
    """Return the addresses of a cluster's shards, or of the replica set."""
    if "setName" in client.admin.command("hello"):
        host, port = client.address or ("", 0)
        return [f"mongodb://{host}:{port}/?directConnection=true"]
    hosts = [shard["host"] for shard in client.admin.command("listShards")["shards"]]
    return [f"mongodb://{host.partition('/')[2]}/?directConnection=true" for host in hosts]


def oplog_at(uri: str) -> list[bytes]:
    with MongoClient[Document](uri) as client:
        return oplog_of(client)


def documents_of(client: "MongoClient[Any]") -> Documents:
    found: Documents = {}
    for name in (SINGLE, BATCHES, LEFT, RIGHT, COUNTERS):
        cursor = client.once.get_collection(name, RAW_OPTIONS).find()
        found[f"once.{name}"] = {identity(document.raw): bytes(document.raw) for document in cursor}
    return found


def test_a_killed_server_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kill_and_compare(BASE_SEED, 3, tmp_path)


@pytest.mark.slow
def test_a_killed_cluster_loses_and_doubles_nothing(tmp_path: Path) -> None:
    kill_and_compare(BASE_SEED, 2, tmp_path, shards=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BASE_SEED + 1, BASE_SEED + 6))
def test_a_cluster_killed_often_loses_and_doubles_nothing(seed: int, tmp_path: Path) -> None:
    kill_and_compare(seed, 30, tmp_path, shards=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BASE_SEED + 1, BASE_SEED + 6))
def test_a_server_killed_often_loses_and_doubles_nothing(seed: int, tmp_path: Path) -> None:
    kill_and_compare(seed, 30, tmp_path)
