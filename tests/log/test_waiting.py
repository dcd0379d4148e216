"""Streams that wait: who is woken, who is not, and that nothing is missed at the end of a wait."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.bson.documents import decode, encode
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.log.head import Head
from tailrace.log.stream import LogStream
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened

FOREVER = 60.0
A_MOMENT = 0.01
EVERYTHING = 1 << 30


class Log:
    """A store and its head, written to in the thread of the test."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._head = Head(store)
        self._number = 0

    def write(self, ns: str) -> None:
        """Insert a document; when this returns the head has it, and whom it concerns is woken."""
        self._number += 1
        document = encode({"_id": self._number})

        def work(unit: WriteUnit) -> None:
            collection = unit.catalog.collection(ns)
            if collection is None:
                database, _, name = ns.partition(".")
                collection = unit.create_collection(database, name)
            unit.insert(collection, document)

        self._store.write_now(work)

    def stream(self, ns: str) -> LogStream:
        return LogStream(Plan.open(Scope.parse_ns(ns), {}), self._head, self._head.lookups)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path) as store:
        log = Log(store)
        log.write("shop.orders")
        yield log


def ids(stream: LogStream) -> list[int]:
    return [decode(row.raw)["documentKey"]["_id"] for row in stream.take(EVERYTHING, EVERYTHING)]


def test_wakes_those_who_can_see_the_entry_and_no_others(log: Log) -> None:
    async def main() -> None:
        watched = ("shop.orders", "shop.orders", "shop", "shop.items", "other")
        streams = [log.stream(ns) for ns in watched]
        waits = [asyncio.create_task(stream.wait(FOREVER)) for stream in streams]
        await asyncio.sleep(0)
        log.write("shop.orders")
        await asyncio.wait(waits[:3])
        assert [wait.done() for wait in waits] == [True, True, True, False, False]
        assert [ids(stream) for stream in streams] == [[2], [2], [2], [], []]
        log.write("shop.items")
        assert await waits[3]
        waits[4].cancel()
        await asyncio.wait(waits[4:])

    asyncio.run(main())


def test_a_wait_ends_when_its_time_is_over(log: Log) -> None:
    async def main() -> None:
        stream = log.stream("shop.orders")
        began = time.monotonic()
        assert not await stream.wait(A_MOMENT)
        assert time.monotonic() - began >= A_MOMENT
        log.write("shop.orders")
        assert ids(stream) == [2]

    asyncio.run(main())


def test_what_comes_between_the_end_of_a_wait_and_its_stream_is_not_missed(log: Log) -> None:
    async def main() -> None:
        stream = log.stream("shop.orders")
        wait = asyncio.create_task(stream.wait(A_MOMENT))
        await asyncio.sleep(0)
        # Both the end of the wait and the write are due when the loop goes on: the wait ends, then the write
        # happens, then the stream hears of its wait.
        asyncio.get_running_loop().call_later(2 * A_MOMENT, log.write, "shop.orders")
        time.sleep(4 * A_MOMENT)
        assert await wait
        assert ids(stream) == [2]

    asyncio.run(main())
