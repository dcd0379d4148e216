"""PyMongo's asynchronous client: many tasks on one loop, writing, transacting and watching."""

import asyncio
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure

from tailrace.testing.replica_set import ReplicaSet

Document = dict[str, Any]
Client = AsyncMongoClient[Document]


async def take(stream: AsyncChangeStream[Document], count: int) -> list[Document]:
    async with asyncio.timeout(20):
        return [await anext(stream) for _ in range(count)]


async def write_and_watch(client: Client) -> None:
    orders = client.shop.orders
    async with await orders.watch(full_document="updateLookup") as stream:
        await orders.insert_one({"_id": 1, "n": 0})
        await orders.update_one({"_id": 1}, {"$inc": {"n": 1}})
        await orders.delete_one({"_id": 1})
        events = await take(stream, 3)
    assert [event["operationType"] for event in events] == ["insert", "update", "delete"]
    async with await orders.watch(resume_after=events[0]["_id"]) as stream:
        assert [event["_id"] for event in await take(stream, 2)] == [event["_id"] for event in events[1:]]


async def many_tasks(client: Client) -> None:
    """Writers and watchers at the same time; every watcher sees every write, in the same order."""
    numbers = client.shop.numbers
    streams = [await numbers.watch(batch_size=size) for size in (1, 3, 100)]
    watchers = [asyncio.create_task(take(stream, 100)) for stream in streams]

    async def write(writer: int) -> None:
        for number in range(20):
            await numbers.insert_one({"_id": writer * 100 + number})

    await asyncio.gather(*(write(writer) for writer in range(5)))
    seen = [[event["_id"] for event in await watcher] for watcher in watchers]
    for stream in streams:
        await stream.close()
    assert seen[0] == seen[1] == seen[2]
    assert len(set(map(str, seen[0]))) == 100


async def transact(client: Client) -> None:
    async def work(session: AsyncClientSession) -> None:
        await client.shop.orders.insert_one({"_id": 5}, session=session)
        await client.bank.accounts.insert_one({"_id": 6}, session=session)

    async with await client.watch() as stream:
        async with client.start_session() as session:
            await session.with_transaction(work)
        events = await take(stream, 2)
    assert [event["documentKey"]["_id"] for event in events] == [5, 6]
    assert events[0]["lsid"] == events[1]["lsid"]
    assert events[0]["clusterTime"] == events[1]["clusterTime"]


async def drop_and_start_after(client: Client) -> None:
    things = client.shop.things
    async with await things.watch() as stream:
        await things.insert_one({"_id": 1})
        await things.drop()
        events = await take(stream, 3)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert not stream.alive
    assert [event["operationType"] for event in events] == ["insert", "drop", "invalidate"]
    await things.insert_one({"_id": 2})
    with pytest.raises(OperationFailure) as failure:
        await things.watch(resume_after=events[-1]["_id"])
    assert failure.value.code == 260
    async with await things.watch(start_after=events[-1]["_id"]) as stream:
        assert (await take(stream, 1))[0]["documentKey"] == {"_id": 2}


@pytest.mark.parametrize("work", [write_and_watch, many_tasks, transact, drop_and_start_after])
def test_the_asynchronous_client(work: Any) -> None:
    async def run(uri: str) -> None:
        async with AsyncMongoClient[Document](uri, serverSelectionTimeoutMS=30_000) as client:
            await work(client)

    with ReplicaSet() as replica_set:
        asyncio.run(run(replica_set.uri))
