"""Drain a stream that resumes a million events back, from the history and from head and oplog.

Two servers alternate on the same data: the streams of one read the oplog, those of the other only the
history. Two streams are drained as raw batches, which measures the server: one of inserts, started at a time,
and one of inserts, updates and deletes, resumed after an event.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

from bson import Timestamp
from pymongo.collection import Collection

from bench.drain import BATCH, count_raw, sample
from bench.figures import print_goal
from bench.server_process import Document, serving
from bench.spark_history import FULL_VARIABLE
from tailrace.mongod.store.store import Store
from tailrace.testing.history_builder import HistoryBuilder

EVENTS, EVENTS_FULL = 300_000, 1_000_000
ROUNDS = 2
OPLOG_MEGABYTES = 8192
"""Large enough for all entries: a store truncates an oplog that is too large when it is opened."""
_CHANGED = 3
"""Of this many events in the second collection, one is an update and one a delete."""


class Start(NamedTuple):
    """Where the streams begin: a time, and the token of an event."""

    time: Timestamp
    token: Document


def fill(plain: Collection[Document], mixed: Collection[Document], events: int) -> Start:
    """Write about ``events`` events to each collection."""
    with plain.database.client.start_session() as session:
        plain.insert_one({"_id": "first"}, session=session)
        started = session.operation_time
        assert started is not None
    with mixed.watch() as changes:
        mixed.insert_one({"_id": "first"})
        token = next(changes)["_id"]
    for start in range(1, events, BATCH):
        size = min(BATCH, events - start)
        plain.insert_many([sample(number) for number in range(start, start + size)])
    for start in range(0, events, BATCH * _CHANGED):
        size = min(BATCH, (events - start) // _CHANGED)
        numbers = range(start, start + size)
        mixed.insert_many([{**sample(number), "_id": number} for number in numbers])
        mixed.update_many({"_id": {"$gte": start}}, {"$set": {"amount": 0.5, "state": "seen"}})
        mixed.delete_many({})
    return Start(started, token)


def drained(collection: Collection[Document], spec: Document, events: int) -> float:
    """Read a stream; return events per second."""
    began = perf_counter()
    with collection.aggregate_raw_batches([{"$changeStream": spec}]) as batches:
        found = count_raw(batches, events)
    if found < events:
        raise SystemExit(f"{collection.name}: {found} events instead of {events}")
    return events / (perf_counter() - began)


def main() -> None:
    events = EVENTS_FULL if os.environ.get(FULL_VARIABLE) else EVENTS
    print(f"history_drain: {events:,} events of each of two collections, {ROUNDS} rounds, best of each")
    with TemporaryDirectory(prefix="tailrace-bench-") as folder:
        data, history = Path(folder) / "data", Path(folder) / "history"
        kept = ("--data", str(data), "--oplog-size", str(OPLOG_MEGABYTES))
        with serving("history_drain", *kept) as server:
            start = fill(server.client.bench.plain, server.client.bench.mixed, events)
        store = Store.open(data, oplog_size=OPLOG_MEGABYTES << 20)
        began = perf_counter()
        HistoryBuilder(store, history).build()
        store.close()
        print(f"  {'built, in one process':<34}{2 * events / (perf_counter() - began):10,.0f} events/s")
        best: dict[tuple[str, str], float] = {}
        mixed_events = events // (BATCH * _CHANGED) * BATCH * _CHANGED
        for _ in range(ROUNDS):
            for head in ("on", "off"):
                options = (*kept, "--no-spark", "--history", str(history), "--head", head)
                with serving("history_drain", *options) as server:
                    database = server.client.bench
                    at_time: Document = {"startAtOperationTime": start.time}
                    found = {
                        "inserts": drained(database.plain, at_time, events),
                        "all kinds": drained(database.mixed, {"resumeAfter": start.token}, mixed_events),
                    }
                    for name, rate in found.items():
                        best[name, head] = max(best.get((name, head), 0.0), rate)
    for name in ("inserts", "all kinds"):
        print(f"  {name + ' from the head':<34}{best[name, 'on']:10,.0f} events/s")
        print(f"  {name + ' from the history':<34}{best[name, 'off']:10,.0f} events/s")
        print_goal(f"{name}, history to head", best[name, "off"] / best[name, "on"], "at least 0.5")
