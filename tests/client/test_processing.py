"""Stored positions, and events that are handled at least once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect, OperationFailure

from tailrace import (
    AsyncCollectionTokenStore,
    CollectionTokenStore,
    FileTokenStore,
    UsageError,
    process,
    process_async,
)
from tailrace.client.options import Document
from tailrace.client.resumable import RESUMABLE_LABEL
from tailrace.testing.replica_set import ReplicaSet

Event = dict[str, Any]

AWAIT_MS = 20


class BrokenError(Exception):
    """Raised by a handler."""


class Memory:
    """A store that records every token saved."""

    def __init__(self) -> None:
        self.saved: list[Document] = []

    def load(self) -> Document | None:
        return self.saved[-1] if self.saved else None

    def save(self, token: Document) -> None:
        self.saved.append(token)


@pytest.fixture
def orders(tailrace_own_server: ReplicaSet) -> Collection[Event]:
    return tailrace_own_server.client().shop.orders


def fill(orders: Collection[Event], *numbers: int) -> None:
    orders.insert_many([{"_id": number} for number in numbers])


def run(orders: Collection[Event], store: Any, seen: list[int], count: int, **options: Any) -> int:
    """Handle ``count`` events; the handler raises for those in the option ``broken``."""

    def handle(event: Event) -> None:
        number = event["documentKey"]["_id"]
        if number in options.get("broken", ()):
            raise BrokenError(number)
        seen.append(number)

    others = {name: value for name, value in options.items() if name != "broken"}
    return process(orders, handle, store, max_events=count, max_await_time_ms=AWAIT_MS, **others)


@pytest.mark.parametrize("kind", ["file", "collection"])
def test_another_run_continues_where_the_last_one_stopped(
    orders: Collection[Event], tmp_path: Path, kind: str
) -> None:
    store: Any = FileTokenStore(tmp_path / "token")
    if kind == "collection":
        store = CollectionTokenStore(orders.database.positions, "orders")
    seen: list[int] = []
    start = orders.database.client.admin.command("hello")["operationTime"]
    fill(orders, *range(10))
    assert run(orders, store, seen, 4, start_at_operation_time=start) == 4
    fill(orders, 10)
    assert run(orders, store, seen, 7, start_at_operation_time=start) == 7
    assert seen == list(range(11))


def test_an_event_that_could_not_be_handled_comes_again(orders: Collection[Event]) -> None:
    store, seen = Memory(), list[int]()
    start = orders.database.client.admin.command("hello")["operationTime"]
    fill(orders, *range(6))
    with pytest.raises(BrokenError):
        run(orders, store, seen, 6, start_at_operation_time=start, broken=[3])
    assert seen == [0, 1, 2]
    run(orders, store, seen, 3)
    assert seen == [0, 1, 2, 3, 4, 5]


def test_the_position_moves_while_nothing_is_seen(orders: Collection[Event]) -> None:
    """Otherwise the position of a stream that matches nothing would drop out of the oplog."""
    store = Memory()

    class EnoughError(Exception):
        pass

    class Counting(Memory):
        def save(self, token: Document) -> None:
            super().save(token)
            store.saved.append(token)
            if len(self.saved) == 3:
                raise EnoughError
            orders.database.elsewhere.insert_many([{}, {}])
            orders.database.elsewhere.insert_one({})

    with pytest.raises(EnoughError):
        process(orders, lambda _: None, Counting(), max_await_time_ms=AWAIT_MS)
    assert len({str(token) for token in store.saved}) == 3


def test_a_dropped_collection_ends_the_run_and_the_next_one_begins_after_it(
    orders: Collection[Event],
) -> None:
    store, seen = Memory(), list[int]()
    fill(orders, 0)
    start = orders.database.client.admin.command("hello")["operationTime"]
    orders.drop()
    kinds: list[str] = []
    process(
        orders,
        lambda event: kinds.append(event["operationType"]),
        store,
        max_await_time_ms=AWAIT_MS,
        start_at_operation_time=start,
        pipeline=[{"$match": {"operationType": {"$ne": "insert"}}}],
    )
    assert kinds == ["drop", "invalidate"]
    fill(orders, 1)
    run(orders, store, seen, 1)
    assert seen == [1]


@pytest.mark.parametrize(
    "fault",
    [
        {"closeConnection": True},
        {"errorCode": 13436},
        {"errorCode": 13436, "errorLabels": []},  # as a member that recovers answers a getMore
        {"errorCode": 6, "errorLabels": [RESUMABLE_LABEL]},
    ],
)
def test_an_outage_of_the_server_is_waited_for(tailrace_own_server: ReplicaSet, fault: Document) -> None:
    client = tailrace_own_server.client(serverSelectionTimeoutMS=200, retryReads=False)
    orders, store, seen = client.shop.orders, Memory(), list[int]()
    fill(tailrace_own_server.client().shop.orders, 0)
    start = client.admin.command("hello")["operationTime"]
    data = {"failCommands": ["getMore", "aggregate"], **fault}

    class Disturbing(Memory):
        def load(self) -> Document | None:
            return None

        def save(self, token: Document) -> None:
            if not self.saved:
                fill(tailrace_own_server.client().shop.orders, 1, 2)
                client.admin.command("configureFailPoint", "failCommand", mode={"times": 5}, data=data)
            super().save(token)

    store = Disturbing()
    run(orders, store, seen, 3, start_at_operation_time=start)
    assert seen[-2:] == [1, 2]


def test_an_outage_that_is_too_long_is_raised(tailrace_own_server: ReplicaSet) -> None:
    client = tailrace_own_server.client(serverSelectionTimeoutMS=200, retryReads=False)

    class Disturbing(Memory):
        def save(self, token: Document) -> None:
            super().save(token)
            data = {"failCommands": ["getMore", "aggregate"], "closeConnection": True}
            client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=data)

    with pytest.raises(AutoReconnect):
        process(client.shop.orders, lambda _: None, Disturbing(), max_outage=0.1, max_await_time_ms=AWAIT_MS)


def test_an_error_of_the_server_is_raised(orders: Collection[Event]) -> None:
    store = Memory()
    with pytest.raises(OperationFailure):
        process(orders, lambda _: None, store, [{"$nonsense": 1}])
    assert store.saved == []


def test_asyncio_continues_and_repeats_a_failed_event_as_well(tailrace_own_server: ReplicaSet) -> None:
    seen: list[int] = []
    broken = [2]

    async def handle(event: Event) -> None:
        number = event["documentKey"]["_id"]
        if number in broken:
            raise BrokenError(number)
        seen.append(number)

    async def scenario() -> None:
        async with AsyncMongoClient[Event](tailrace_own_server.uri) as client:
            store = AsyncCollectionTokenStore(client.shop.positions, "orders")
            start = (await client.admin.command("hello"))["operationTime"]
            await client.shop.orders.insert_many([{"_id": number} for number in range(5)])
            options: Any = {"start_at_operation_time": start, "max_await_time_ms": AWAIT_MS}
            with pytest.raises(BrokenError):
                await process_async(client.shop.orders, handle, store, max_events=5, **options)
            broken.clear()
            assert await process_async(client.shop.orders, handle, store, max_events=3, **options) == 3

    asyncio.run(scenario())
    assert seen == [0, 1, 2, 3, 4]


def test_a_token_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    store = FileTokenStore(tmp_path / "token")
    assert store.load() is None
    for name in ("8201", "8202"):
        store.save({"_data": name})
        assert store.load() == {"_data": name}
    assert [path.name for path in tmp_path.iterdir()] == ["token"]
    (tmp_path / "token").write_text("\n")
    assert store.load() is None


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_token_file_with_other_content_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="token"):
        FileTokenStore(path).load()
