"""The log of a history: the streams that a commit wakes, positions, and tables that cannot be read."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from bson import Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.lake.table import HistoryTable
from tailrace.log.history_log import HistoryLog
from tailrace.log.oplogs import StoreOplog
from tailrace.log.stream import LogStream
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.testing.history_builder import HistoryBuilder
from tests.log.written_stores import EVERYTHING, collection_of, ids

FOREVER = 60.0
A_MOMENT = 0.05


class StoredHistory:
    """A store, its history, and the log of the history."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store = store
        self.path = path
        self.builder = HistoryBuilder(store, path)
        self.log = HistoryLog(StoreOplog(store), path)

    def write(self, ns: str, numbers: Sequence[int]) -> None:
        """Insert documents in one job, as one command does."""

        def work(unit: WriteUnit) -> None:
            collection = collection_of(unit, ns)
            for number in numbers:
                unit.insert(collection, encode({"_id": number}))

        self.store.write_now(work)

    def stream(self, ns: str, *, from_start: bool = False) -> LogStream:
        spec = {"startAtOperationTime": Timestamp(1, 1)} if from_start else {}
        return LogStream(Plan.open(Scope.parse_ns(ns), spec), self.log, self.log.lookups)


@asynccontextmanager
async def stored_history(path: Path) -> AsyncIterator[StoredHistory]:
    store = Store.open(path / "data", map_size=1 << 30)
    opened = StoredHistory(store, path / "history")
    try:
        opened.write("shop.orders", [0])
        opened.builder.build()
        opened.log.start()
        yield opened
    finally:
        await opened.log.close()
        store.close()


async def fetched_ids(stream: LogStream) -> list[int]:
    found = []
    while stream.is_behind:
        while stream.must_fetch and await stream.fetch():
            pass
        found += [decode(row.raw)["documentKey"]["_id"] for row in stream.take(1000, EVERYTHING)]
    return found


def test_a_commit_wakes_only_streams_that_show_its_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored_history(tmp_path) as stored:
            watched = ("shop.orders", "shop", "shop.items", "other")
            streams = [stored.stream(ns) for ns in watched]
            waits = [asyncio.create_task(stream.wait(FOREVER)) for stream in streams]
            await asyncio.sleep(A_MOMENT)
            stored.write("shop.orders", [1])
            await asyncio.to_thread(stored.builder.build)
            assert await asyncio.wait_for(waits[0], 10)
            assert await asyncio.wait_for(waits[1], 10)
            assert [wait.done() for wait in waits[2:]] == [False, False]
            assert await fetched_ids(streams[0]) == [1]
            assert await fetched_ids(streams[1]) == [1]
            for wait in waits[2:]:
                wait.cancel()

    asyncio.run(main())


def test_a_large_commit_wakes_all_streams(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored_history(tmp_path) as stored:
            stream = stored.stream("shop.items")
            wait = asyncio.create_task(stream.wait(FOREVER))
            await asyncio.sleep(A_MOMENT)
            for first in range(1, 3001, 500):
                stored.write("shop.orders", range(first, first + 500))
            stored.write("shop.items", [9])
            await asyncio.to_thread(stored.builder.build)
            assert await asyncio.wait_for(wait, 10)
            assert await fetched_ids(stream) == [9]

    asyncio.run(main())


def test_a_stream_may_start_within_rows_that_another_stream_has_read(tmp_path: Path) -> None:
    """Each starts at its position, no matter which rows are in memory."""

    async def main() -> None:
        async with stored_history(tmp_path) as stored:
            for number in range(1, 40):
                stored.write("shop.orders", [number])
            stored.builder.build()
            await stored.log.check()
            assert await fetched_ids(stored.stream("shop.orders", from_start=True)) == list(range(40))
            with stored.store.snapshot() as snapshot:
                times = [ts for ts, raw in snapshot.entries(0) if decode(raw)["op"] == "i"]
            for place in (times[0], times[17], times[38]):
                spec = {"startAtOperationTime": to_timestamp(place)}
                stream = LogStream(Plan.open(Scope.parse_ns("shop"), spec), stored.log, stored.log.lookups)
                assert await fetched_ids(stream) == list(range(times.index(place), 40))

    asyncio.run(main())


def test_streams_skip_only_what_they_do_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.pipeline.history.build.SLICE_ENTRIES", 5)
    monkeypatch.setattr("tailrace.lake.writer.ROW_GROUP_ROWS", 1)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    names = ("shop.orders", "shop.items", "other.orders")
    written: dict[str, list[int]] = {name: [] for name in names}
    written["shop.orders"].append(0)

    async def main() -> None:
        async with stored_history(tmp_path) as stored:
            number = 1
            for _ in range(6):
                for _ in range(rng.randrange(30)):
                    name = rng.choices(names, (8, 1, 1))[0]
                    numbers = range(number, number + rng.choice((1, 1, 2, 9)))
                    stored.write(name, numbers)
                    written[name] += numbers
                    number = numbers.stop
                stored.builder.build()
            await stored.log.check()
            absent, skipped = stored.stream("shop.nothing", from_start=True), 0
            while absent.is_behind:
                while absent.must_fetch and await absent.fetch():
                    skipped += 1
                assert absent.take(1, 1) == []
            assert skipped
            for name in names:
                assert await fetched_ids(stored.stream(name, from_start=True)) == written[name]
            both = sorted(written["shop.orders"] + written["shop.items"])
            assert await fetched_ids(stored.stream("shop", from_start=True)) == both

    asyncio.run(main())


def test_a_fault_that_ends_before_the_stream_reads_costs_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored_history(tmp_path) as stored:
            faults: list[Exception] = []
            stored.log.on_fault = faults.append
            (file,) = HistoryTable.open(stored.path).files
            path = stored.path / file.path
            content = path.read_bytes()
            path.write_bytes(b"not Parquet")
            stream = stored.stream("shop.orders", from_start=True)
            await stream.fetch()
            assert faults
            path.write_bytes(content)
            found = []
            while stream.is_behind:
                found += ids(stream)
            assert found == [0]

    asyncio.run(main())


def test_a_table_that_cannot_be_read_is_an_error_of_the_stream(tmp_path: Path) -> None:
    async def main() -> None:
        async with stored_history(tmp_path) as stored:
            faults: list[Exception] = []
            stored.log.on_fault = faults.append
            for file in HistoryTable.open(stored.path).files:
                (stored.path / file.path).write_bytes(b"not Parquet")
            stream = stored.stream("shop.orders", from_start=True)
            await stream.fetch()
            assert faults
            with pytest.raises(CommandError, match="the history cannot be read") as caught:
                stream.take(1, 1)
            assert caught.value.code == 8881103

    asyncio.run(main())
