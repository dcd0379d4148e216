"""Many writers and watchers at once: no event is lost, duplicated or out of order, in any kind of stream.

The expected events are computed from the oplog at the end; the writers' own numbers show that the oplog is
complete.
"""

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.change_stream import ChangeStream
from pymongo.client_session import ClientSession

from tailrace.bson import documents as bsondocs
from tailrace.events.scope import Scope
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.law_seeds import BASE_SEED
from tests.laws.wire_streams import oplog_of
from tests.support.client_workload import RAW_OPTIONS
from tests.support.history import History
from tests.support.streams import Stream, token_of

Document = dict[str, Any]
Pipeline = Sequence[Mapping[str, Any]]
WRITERS = 8
WRITES = 40
SECONDS = 60
LAST = "last"
ONLY_INSERTS: Pipeline = [{"$match": {"operationType": "insert"}}]
SLIM: Pipeline = [{"$match": {"ns.coll": "even"}}, {"$project": {"documentKey": 1, "operationType": 1}}]
WITHOUT_DOCUMENT: Pipeline = [{"$project": {"fullDocument": 0}}]


@dataclass(frozen=True)
class Watch:
    """One kind of stream, and how it is read."""

    name: str
    namespace: str
    pipeline: Pipeline = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    resume_every: int = 0
    """Number of events after which the stream is closed and another one is resumed after the last event"""

    def open(self, client: "MongoClient[Any]", **start: Any) -> "ChangeStream[Any]":
        database, _, collection = self.namespace.partition(".")
        target: Any = client
        if database:
            target = client.get_database(database, RAW_OPTIONS)
        if collection:
            target = target.get_collection(collection)
        stream: ChangeStream[Any] = target.watch(
            list(self.pipeline), max_await_time_ms=500, **{**self.options, **start}
        )
        return stream


WATCHES = [
    Watch("collection", "even.even"),
    Watch("collection, one by one", "odd.odd", options={"batch_size": 1}),
    Watch("collection, filtered", "even.even", ONLY_INSERTS, {"batch_size": 3}),
    Watch("database", "odd"),
    Watch("database, resumed", "even", resume_every=7),
    Watch("cluster", ""),
    Watch("cluster, filtered and projected", "", SLIM),
    Watch("cluster, looked up and resumed", "", WITHOUT_DOCUMENT, {"full_document": "updateLookup"}, 23),
]


class Worker(threading.Thread):
    """A thread whose error is not lost."""

    def __init__(self, name: str, work: Callable[..., None], *arguments: Any) -> None:
        super().__init__(name=name)
        self._work = partial(work, *arguments)
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error


def write(client: "MongoClient[Any]", writer: int, seed: int, writes: int) -> None:
    """Write the writer's own documents, with numbers that show the order."""
    rng = random.Random(seed + writer)
    name = "odd" if writer % 2 else "even"
    collection = client[name][name]
    for number in range(writes):
        key = f"{writer}-{number}"
        roll = rng.random()
        if roll < 0.2:
            transact(client, name, {"_id": key, "n": number})
        elif roll < 0.3:
            collection.insert_one({"_id": key, "n": number})
            with client.start_session() as session, session.start_transaction():
                collection.insert_one({"_id": f"{key}-aborted"}, session=session)
                session.abort_transaction()
        else:
            collection.insert_one({"_id": key, "n": number})
        if roll > 0.5:
            collection.update_one({"_id": key}, {"$set": {"changed": True}})
        if roll > 0.8:
            collection.delete_one({"_id": key})


def transact(client: "MongoClient[Any]", name: str, document: Document) -> None:
    """Two inserts in one transaction, which may be retried: others create the collection as well."""

    def work(session: ClientSession) -> None:
        client[name][name].insert_one(document, session=session)
        client[name].other.insert_one({"_id": document["_id"]}, session=session)

    with client.start_session() as session:
        session.with_transaction(work)


def watch(watched: Watch, client: "MongoClient[Any]", seen: list[bytes], opened: threading.Barrier) -> None:
    """Read up to the last document, which is written when the writers are done."""
    stream = watched.open(client)
    opened.wait(SECONDS)
    try:
        while not seen or bsondocs.decode(seen[-1])["documentKey"]["_id"] != LAST:
            event = next(stream)
            seen.append(bytes(event.raw))
            if watched.resume_every and len(seen) % watched.resume_every == 0:
                stream.close()
                stream = watched.open(client, resume_after=event["_id"])
    finally:
        stream.close()


@pytest.fixture
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet() as started:
        yield started


def run_all(replica_set: ReplicaSet, seed: int, writes: int) -> tuple[Timestamp, list[list[bytes]]]:
    """Run all workers; returns the start time and the events of each watcher."""
    client = replica_set.client(maxPoolSize=None, w="majority")
    raw_client = replica_set.client(maxPoolSize=None, document_class=RAW_OPTIONS.document_class)
    start: Timestamp = client.admin.command("appendOplogNote", data={})["operationTime"]
    opened = threading.Barrier(len(WATCHES) + 1)
    seen: list[list[bytes]] = [[] for _ in WATCHES]
    watchers = [
        Worker(watched.name, watch, watched, raw_client, events, opened)
        for watched, events in zip(WATCHES, seen, strict=True)
    ]
    for watcher in watchers:
        watcher.start()
    opened.wait(SECONDS)
    writers = [Worker(f"writer {number}", write, client, number, seed, writes) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(SECONDS)
    client.odd.odd.insert_one({"_id": LAST})
    client.even.even.insert_one({"_id": LAST})
    for watcher in watchers:
        watcher.join(SECONDS)
    failures = {worker.name: worker.error for worker in (*writers, *watchers) if worker.error is not None}
    assert failures == {}
    assert not [worker.name for worker in (*writers, *watchers) if worker.is_alive()]
    return start, seen


def check(replica_set: ReplicaSet, seed: int, writes: int) -> None:
    start, seen = run_all(replica_set, seed, writes)
    history = History(seed, oplog_of(replica_set.client(), start), [], {}, {})
    for watched, events in zip(WATCHES, seen, strict=True):
        tokens = [token_of(event)["_data"] for event in events]
        assert all(earlier < later for earlier, later in pairwise(tokens)), watched.name
        scope = Scope.parse_ns(watched.namespace) if watched.namespace else Scope.cluster()
        spec = {"startAtOperationTime": start}
        expected = Stream(history, scope, spec, watched.pipeline).events()
        # A cluster's stream ends with the first of the two last documents.
        assert events == expected[: len(events)], watched.name
        assert len(expected) - len(events) <= (0 if watched.namespace else 1), watched.name
    inserted: dict[int, list[int]] = {writer: [] for writer in range(WRITERS)}
    for event in map(bsondocs.decode, seen[WATCHES.index(next(w for w in WATCHES if w.name == "cluster"))]):
        if event["operationType"] == "insert" and "n" in event["fullDocument"]:
            writer = int(event["documentKey"]["_id"].partition("-")[0])
            inserted[writer].append(event["fullDocument"]["n"])
    assert inserted == {writer: list(range(writes)) for writer in range(WRITERS)}


def test_writers_and_watchers_at_once(replica_set: ReplicaSet) -> None:
    check(replica_set, BASE_SEED, WRITES)
    assert [line for line in replica_set.log() if line["s"] == "E"] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BASE_SEED + 1, BASE_SEED + 6))
def test_writers_and_watchers_at_once_for_long(replica_set: ReplicaSet, seed: int) -> None:
    check(replica_set, seed, 400)
