"""Streams of one scope and options share their output; each shows the same as without the others."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.bson.documents import encode
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.log.head import HeadLog
from tailrace.log.local_engine import LocalEngine
from tailrace.log.shared_output import SharedOutput
from tailrace.log.stream import LogStream
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tests.log.written_stores import EVERYTHING, collection_of

SEED = 11


class Log:
    """A store and its head; the test's thread writes to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.head = HeadLog(store)
        self._number = 0

    def insert(self, ns: str, count: int = 1) -> None:
        documents = [encode({"_id": self._number + n, "text": "x" * 50}) for n in range(1, count + 1)]
        self._number += count

        def work(unit: WriteUnit) -> None:
            collection = collection_of(unit, ns)
            for document in documents:
                unit.insert(collection, document)

        self._store.write_now(work)

    def stream(self, ns: str, **options: object) -> LogStream:
        return LogStream(Plan.open(Scope.parse_ns(ns), options), self.head, self.head.lookups)

    def expected(self, ns: str, start: int, **options: object) -> list[bytes]:
        """Return the events since a time, as the local engine makes them for one stream."""
        options["startAtOperationTime"] = to_timestamp(start)
        engine = LocalEngine(Plan.open(Scope.parse_ns(ns), options), from_oldest=False)
        with self._store.snapshot() as snapshot:
            engine.push("", [entry for _, entry in snapshot.entries(start - 1)])
        return engine.drain()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    store = Store.open(tmp_path, map_size=1 << 30)
    log = Log(store)
    log.insert("shop.orders")
    yield log
    store.close()


def remaining(stream: LogStream) -> list[bytes]:
    rows = []
    while stream.is_behind:
        rows += [row.raw for row in stream.take(EVERYTHING, EVERYTHING)]
    return rows


@pytest.mark.parametrize("room", [0, 10_000, 1 << 24])
def test_streams_at_different_positions_show_the_same_as_without_the_others(log: Log, room: int) -> None:
    """In any order of reading, and with any size of the cache."""
    rng = random.Random(SEED)
    log.head.shared_output = SharedOutput(room)
    started = log.head.newest + 1
    streams = [log.stream("shop.orders") for _ in range(8)]
    shown: list[list[bytes]] = [[] for _ in streams]
    for _ in range(60):
        log.insert(rng.choice(("shop.orders", "shop.items")), rng.choice((1, 1, 3, 40)))
        for stream, rows in zip(streams, shown, strict=True):
            if rng.random() < 0.4:
                rows += [row.raw for row in stream.take(rng.choice((1, 5, EVERYTHING)), EVERYTHING)]
    for stream, rows in zip(streams, shown, strict=True):
        rows += remaining(stream)
        assert rows == log.expected("shop.orders", started)
    assert len({stream.position for stream in streams}) == 1


def test_streams_of_other_scopes_or_options_do_not_share_output(log: Log) -> None:
    started = log.head.newest + 1
    orders, expanded, database = (
        log.stream("shop.orders"),
        log.stream("shop.orders", showExpandedEvents=True),
        log.stream("shop"),
    )
    log.insert("shop.orders", 3)
    log.insert("shop.items")
    assert remaining(orders) == log.expected("shop.orders", started)
    assert remaining(expanded) == log.expected("shop.orders", started, showExpandedEvents=True)
    assert remaining(database) == log.expected("shop", started)
