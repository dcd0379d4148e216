"""200,000 events drained with Tailrace's change stream, against PyMongo's own `watch` in the same run.

The rounds alternate, so that other load on the machine affects both; the best round of each counts.
"""

import asyncio
from collections.abc import AsyncIterable
from time import perf_counter

from bson import Timestamp
from pymongo import AsyncMongoClient
from pymongo.collection import Collection

from bench.drain import DOCUMENTS, count, fill
from bench.figures import print_goal
from bench.server_process import Document, serving
from tailrace import watch, watch_async

ROUNDS = 5


def drain_pymongo(collection: Collection[Document], started: Timestamp) -> int:
    with collection.watch(start_at_operation_time=started) as stream:
        return count(stream, DOCUMENTS)


def drain_ours(collection: Collection[Document], started: Timestamp) -> int:
    with watch(collection, start_at_operation_time=started) as stream:
        return count(stream, DOCUMENTS)


async def count_async(events: AsyncIterable[object]) -> int:
    found = 0
    async for _ in events:
        found += 1
        if found == DOCUMENTS:
            break
    return found


async def drain_async_pymongo(client: AsyncMongoClient[Document], started: Timestamp) -> int:
    async with await client.bench.drain.watch(start_at_operation_time=started) as stream:
        return await count_async(stream)


async def drain_async_ours(client: AsyncMongoClient[Document], started: Timestamp) -> int:
    async with await watch_async(client.bench.drain, start_at_operation_time=started) as stream:
        return await count_async(stream)


async def async_rates(uri: str, started: Timestamp) -> dict[str, float]:
    best = {"async, PyMongo": 0.0, "async, Tailrace": 0.0}
    async with AsyncMongoClient[Document](uri) as client:
        for _ in range(ROUNDS):
            for name, drain in zip(best, (drain_async_pymongo, drain_async_ours), strict=True):
                began = perf_counter()
                await drain(client, started)
                best[name] = max(best[name], DOCUMENTS / (perf_counter() - began))
    return best


def main() -> None:
    print(f"driver-drain: {DOCUMENTS:,} events of inserts, {ROUNDS} rounds, best of each")
    best = {"PyMongo": 0.0, "Tailrace": 0.0}
    with serving("driver-drain", "--oplog-size", "1024") as server:
        collection = server.client.bench.drain
        started = fill(collection)
        for _ in range(ROUNDS):
            for name, drain in zip(best, (drain_pymongo, drain_ours), strict=True):
                began = perf_counter()
                drain(collection, started)
                best[name] = max(best[name], DOCUMENTS / (perf_counter() - began))
        best |= asyncio.run(async_rates(server.uri, started))
    for name, rate in best.items():
        print(f"  {name:<34}{rate:10,.0f} events/s")
    print_goal("Tailrace to PyMongo", best["Tailrace"] / best["PyMongo"], "at least 1")
    print_goal("the same, async", best["async, Tailrace"] / best["async, PyMongo"], "at least 1")
