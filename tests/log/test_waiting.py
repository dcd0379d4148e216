"""Streams that wait: which ones an entry wakes, and that no event is missed at the end of a wait."""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import Operation
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.log.head import HeadLog
from tailrace.log.stream import LogStream
from tailrace.mongod.store.ddl.rename import rename_collection
from tailrace.mongod.store.ddl.views import create_view
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.sessions import SessionWrites
from tailrace.mongod.store.write_unit import WriteUnit
from tests.log.written_stores import EVERYTHING, collection_of, ids
from tests.mongod.store.opening import opened

FOREVER = 60.0
A_MOMENT = 0.01


class Log:
    """A store and its head; the test's thread writes to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._head = HeadLog(store)
        self._number = 0

    def write(self, ns: str) -> None:
        """Insert a document; at return the head has it, and the streams that show it are woken."""
        self._number += 1
        document = encode({"_id": self._number})

        def work(unit: WriteUnit) -> None:
            unit.insert(collection_of(unit, ns), document)

        self._store.write_now(work)

    def end_transaction(self, touched: list[str]) -> None:
        """Log the end of a prepared transaction as a shard does."""
        session: dict[str, Any] = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(3)}
        end = {"endOfTransaction": touched}
        message = Operation("n", "admin.$cmd", encode({"msg": end}), o2=encode({**end, **session}))
        self._store.write_now(lambda unit: unit.log(message))

    def write_damaged(self, ns: str) -> None:
        """Log a delete as no server does: without the collection's UUID."""
        self._store.write_now(lambda unit: unit.log(Operation("d", ns, encode({"_id": 1}))))

    def write_damaged_transaction(self, ns: str) -> None:
        """Log a transaction one of whose operations has no UUID."""
        inner = {"op": "d", "ns": ns, "o": {"_id": 1}}
        session = SessionWrites(encode({"id": Binary(bytes(16), 4)}), 3)
        command = Operation("c", "admin.$cmd", encode({"applyOps": [inner]}))

        def work(unit: WriteUnit) -> None:
            unit.log(command, session=session)

        self._store.write_now(work)

    def create_view(self, database: str, name: str) -> None:
        self._store.write_now(partial(create_view, database=database, name=name, view_on="x", pipeline=[]))

    def create_collection(self, ns: str) -> None:
        database, _, name = ns.partition(".")
        self._store.write_now(lambda unit: unit.create_collection(database, name))

    def rename(self, source: str, target: str) -> None:
        (database, _, old), (other, _, new) = source.partition("."), target.partition(".")
        self._store.write_now(partial(rename_collection, source=(database, old), target=(other, new)))

    def stream(self, ns: str, spec: dict[str, Any] | None = None) -> LogStream:
        return LogStream(Plan.open(Scope.parse_ns(ns), spec or {}), self._head, self._head.lookups)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path) as store:
        log = Log(store)
        log.write("shop.orders")
        yield log


def test_an_entry_wakes_only_streams_that_show_it(log: Log) -> None:
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


def test_the_end_of_a_transaction_wakes_the_streams_of_its_collections(log: Log) -> None:
    async def main() -> None:
        spec = {"showExpandedEvents": True}
        streams = [log.stream(ns, spec) for ns in ("shop.orders", "shop")]
        waits = [asyncio.create_task(stream.wait(FOREVER)) for stream in streams]
        await asyncio.sleep(0)
        log.end_transaction(["shop.orders"])
        assert await asyncio.gather(*waits) == [True, True]
        for stream in streams:
            (row,) = stream.take(EVERYTHING, EVERYTHING)
            assert decode(row.raw)["operationType"] == "endOfTransaction"

    asyncio.run(main())


def test_an_entry_that_cannot_be_read_is_an_error_of_every_stream(log: Log) -> None:
    async def main() -> None:
        streams = [log.stream("shop.orders"), log.stream("shop")]
        log.write("shop.orders")
        log.write_damaged("shop.orders")
        for stream in streams:
            assert ids(stream) == [2]
            with pytest.raises(CommandError) as caught:
                stream.take(EVERYTHING, EVERYTHING)
            assert caught.value.code == 7826901

    asyncio.run(main())


def test_a_transaction_that_cannot_be_read_wakes_every_stream_that_may_see_it(log: Log) -> None:
    async def main() -> None:
        streams = [log.stream("shop.orders"), log.stream("shop")]
        waits = [asyncio.create_task(stream.wait(FOREVER)) for stream in streams]
        await asyncio.sleep(0)
        log.write_damaged_transaction("shop.orders")
        assert await asyncio.gather(*waits) == [True, True]
        for stream in streams:
            with pytest.raises(CommandError) as caught:
                stream.take(EVERYTHING, EVERYTHING)
            assert caught.value.code == 7826901

    asyncio.run(main())


def test_changes_of_the_catalog_wake_the_streams_that_show_them(log: Log) -> None:
    async def main() -> None:
        log.create_collection("shop.items")
        log.create_view("shop", "first")
        changes: list[tuple[Callable[[], None], list[str]]] = [
            (lambda: log.create_view("shop", "seen"), ["shop"]),
            (lambda: log.create_collection("shop.made"), ["shop.made", "shop"]),
            (lambda: log.rename("shop.items", "shop.seen2"), ["shop.items", "shop.seen2", "shop"]),
        ]
        for change, woken in changes:
            watched = ["shop.seen", "shop.made", "shop.items", "shop.seen2", "shop", "other", "shop.orders"]
            streams = [log.stream(ns, {"showExpandedEvents": True}) for ns in watched]
            waits = [asyncio.create_task(stream.wait(FOREVER)) for stream in streams]
            await asyncio.sleep(0)
            change()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [ns for ns, wait in zip(watched, waits, strict=True) if wait.done()] == [
                ns for ns in watched if ns in woken
            ]
            for ns, stream, wait in zip(watched, streams, waits, strict=True):
                assert bool(stream.take(EVERYTHING, EVERYTHING)) == (ns in woken)
                wait.cancel()
            await asyncio.wait(waits)

    asyncio.run(main())


def test_a_wait_ends_after_its_timeout(log: Log) -> None:
    async def main() -> None:
        stream = log.stream("shop.orders")
        began = time.monotonic()
        assert not await stream.wait(A_MOMENT)
        assert time.monotonic() - began >= A_MOMENT
        log.write("shop.orders")
        assert ids(stream) == [2]

    asyncio.run(main())


def test_an_entry_written_between_the_timeout_and_the_streams_return_is_not_missed(log: Log) -> None:
    async def main() -> None:
        stream = log.stream("shop.orders")
        wait = asyncio.create_task(stream.wait(A_MOMENT))
        await asyncio.sleep(0)
        # Both the timeout and the write are due when the loop continues: the wait ends, then the entry is
        # written, then the stream's `wait` returns.
        asyncio.get_running_loop().call_later(2 * A_MOMENT, log.write, "shop.orders")
        time.sleep(4 * A_MOMENT)
        assert await wait
        assert ids(stream) == [2]

    asyncio.run(main())
