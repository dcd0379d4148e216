"""200,000 events through one change stream cursor, against a `find` of the same documents.

PyMongo reads both: as raw batches, which measures the server; by a plain cursor, where the client decodes,
and an event is several times as large as its document; and by `watch`, which does more work for each event.
The ways to read alternate, so that other load on the machine affects all of them.
"""

import struct
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from time import perf_counter

from bson import Timestamp
from pymongo.collection import Collection

from bench.figures import print_goal
from bench.server_process import Document, serving

DOCUMENTS = 200_000
BATCH = 1_000
ROUNDS = 3

Read = Callable[[], int]

_read_length = struct.Struct("<i").unpack_from


def sample(number: int) -> Document:
    """A document of about 200 bytes; the driver adds the `_id`."""
    return {
        "number": number,
        "customer": f"customer-{number % 1000:04}",
        "amount": number / 7,
        "when": datetime(2026, 1, 1, tzinfo=UTC),
        "tags": ["new", "paid"],
        "note": "x" * 60,
    }


def fill(collection: Collection[Document]) -> Timestamp:
    """Insert the documents; return the time to start from."""
    with collection.database.client.start_session() as session:
        collection.insert_one({"_id": "first"}, session=session)
        started = session.operation_time
        assert started is not None
        collection.delete_one({"_id": "first"}, session=session)
    for start in range(0, DOCUMENTS, BATCH):
        collection.insert_many([sample(number) for number in range(start, start + BATCH)])
    return started


def count_raw(batches: Iterable[object], wanted: int) -> int:
    """Count the documents in raw batches, up to ``wanted``."""
    count = 0
    for batch in batches:
        assert isinstance(batch, bytes)
        position = 0
        while position < len(batch):
            position += _read_length(batch, position)[0]
            count += 1
        if count >= wanted:
            break
    return count


def count(documents: Iterable[object], wanted: int) -> int:
    found = 0
    for _ in documents:
        found += 1
        if found == wanted:
            break
    return found


def main() -> None:
    print(f"drain: {DOCUMENTS:,} events of inserts and the same documents, {ROUNDS} rounds, best of each")
    with serving("drain", "--oplog-size", "1024") as server:
        collection = server.client.bench.drain
        started = fill(collection)
        # The stream begins with the first insert, so that insert and its delete are events, too.
        events = DOCUMENTS + 2
        stage: Document = {"$changeStream": {"startAtOperationTime": started}}

        def find_raw() -> int:
            return count_raw(collection.find_raw_batches(), DOCUMENTS)

        def stream_raw() -> int:
            with collection.aggregate_raw_batches([stage]) as batches:
                return count_raw(batches, events) - 2

        def find() -> int:
            return count(collection.find(), DOCUMENTS)

        def stream() -> int:
            with collection.aggregate([stage]) as changes:
                return count(changes, events) - 2

        def watch() -> int:
            with collection.watch(start_at_operation_time=started) as changes:
                return count(changes, events) - 2

        reads: dict[str, Read] = {
            "find, raw batches": find_raw,
            "stream, raw batches": stream_raw,
            "find": find,
            "stream": stream,
            "stream by watch": watch,
        }
        best = dict.fromkeys(reads, 0.0)
        used = dict.fromkeys(reads, float("inf"))
        for _ in range(ROUNDS):
            for name, read in reads.items():
                before, began = server.usage().seconds, perf_counter()
                found = read()
                taken = perf_counter() - began
                if found != DOCUMENTS:
                    raise SystemExit(f"{name}: {found} documents instead of {DOCUMENTS}")
                best[name] = max(best[name], DOCUMENTS / taken)
                used[name] = min(used[name], (server.usage().seconds - before) / DOCUMENTS)
    for name, rate in best.items():
        print(f"  {name:<34}{rate:10,.0f} documents/s   {used[name] * 1e6:6.2f} µs of the server for each")
    ratio = best["stream, raw batches"] / best["find, raw batches"]
    print_goal("stream to find, raw batches", ratio, "at least 0.5")
    print(f"  {'stream to find':<34}{best['stream'] / best['find']:8.2f}")
    print(f"  {'watch to find':<34}{best['stream by watch'] / best['find']:8.2f}")
