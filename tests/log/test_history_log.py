"""The log of a history: who is woken by a commit, what is shared, and what a reader is spared."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from bson import Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.lake.table import HistoryTable
from tailrace.log.history_log import HistoryLog
from tailrace.log.oplogs import StoreOplog
from tailrace.log.stream import LogStream
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.testing.history_builder import HistoryBuilder

FOREVER = 60.0
A_MOMENT = 0.05
EVERYTHING = 1 << 30


class Kept:
    """A store, its history, and the log of that."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store = store
        self.path = path
        self.builder = HistoryBuilder(store, path)
        self.log = HistoryLog(StoreOplog(store), path)

    def write(self, ns: str, numbers: Sequence[int]) -> None:
        """Insert documents, as one command does."""

        def work(unit: WriteUnit) -> None:
            collection = unit.catalog.collection(ns)
            if collection is None:
                database, _, name = ns.partition(".")
                collection = unit.create_collection(database, name)
            for number in numbers:
                unit.insert(collection, encode({"_id": number}))

        self.store.write_now(work)

    def stream(self, ns: str, *, from_start: bool = False) -> LogStream:
        spec = {"startAtOperationTime": Timestamp(1, 1)} if from_start else {}
        return LogStream(Plan.open(Scope.parse_ns(ns), spec), self.log, self.log.lookups)


@asynccontextmanager
async def kept(path: Path) -> AsyncIterator[Kept]:
    store = Store.open(path / "data", map_size=1 << 30)
    opened = Kept(store, path / "history")
    try:
        opened.write("shop.orders", [0])
        opened.builder.build()
        opened.log.start()
        yield opened
    finally:
        await opened.log.close()
        store.close()


async def ids(stream: LogStream) -> list[int]:
    found = []
    while stream.is_behind:
        if stream.must_fetch:
            await stream.fetch()
        found += [decode(row.raw)["documentKey"]["_id"] for row in stream.take(1000, EVERYTHING)]
    return found


def test_a_commit_wakes_those_who_can_see_its_events_and_no_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with kept(tmp_path) as log:
            watched = ("shop.orders", "shop", "shop.items", "other")
            streams = [log.stream(ns) for ns in watched]
            waits = [asyncio.create_task(stream.wait(FOREVER)) for stream in streams]
            await asyncio.sleep(A_MOMENT)
            log.write("shop.orders", [1])
            await asyncio.to_thread(log.builder.build)
            assert await asyncio.wait_for(waits[0], 10)
            assert await asyncio.wait_for(waits[1], 10)
            assert [wait.done() for wait in waits[2:]] == [False, False]
            assert await ids(streams[0]) == [1]
            assert await ids(streams[1]) == [1]
            for wait in waits[2:]:
                wait.cancel()

    asyncio.run(main())


def test_a_large_commit_wakes_everybody_to_look_for_themselves(tmp_path: Path) -> None:
    async def main() -> None:
        async with kept(tmp_path) as log:
            stream = log.stream("shop.items")
            wait = asyncio.create_task(stream.wait(FOREVER))
            await asyncio.sleep(A_MOMENT)
            for first in range(1, 3001, 500):
                log.write("shop.orders", range(first, first + 500))
            log.write("shop.items", [9])
            await asyncio.to_thread(log.builder.build)
            assert await asyncio.wait_for(wait, 10)
            assert await ids(stream) == [9]

    asyncio.run(main())


def test_a_stream_may_begin_within_what_another_has_read(tmp_path: Path) -> None:
    """Each begins at its own place, whatever pieces are in memory."""

    async def main() -> None:
        async with kept(tmp_path) as log:
            for number in range(1, 40):
                log.write("shop.orders", [number])
            log.builder.build()
            await log.log.look()
            assert await ids(log.stream("shop.orders", from_start=True)) == list(range(40))
            with log.store.snapshot() as snapshot:
                times = [ts for ts, raw in snapshot.entries(0) if decode(raw)["op"] == "i"]
            for place in (times[0], times[17], times[38]):
                spec = {"startAtOperationTime": Timestamp(place >> 32, place & 0xFFFFFFFF)}
                stream = LogStream(Plan.open(Scope.parse_ns("shop"), spec), log.log, log.log.lookups)
                assert await ids(stream) == list(range(times.index(place), 40))

    asyncio.run(main())


def test_a_table_that_cannot_be_read_fails_streams_and_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with kept(tmp_path) as log:
            faults: list[Exception] = []
            log.log.on_fault = faults.append
            for file in HistoryTable.open(log.path).files:
                (log.path / file.path).write_bytes(b"not Parquet")
            stream = log.stream("shop.orders", from_start=True)
            await stream.fetch()
            assert faults
            with pytest.raises(CommandError, match="the history cannot be read"):
                stream.take(1, 1)

    asyncio.run(main())
