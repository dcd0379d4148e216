"""What a row of the history costs the server: streams at different places, and one that does not show it.

32 streams, each with its part of the history, are read in turn, a batch of each; the same rows are then read
by eight streams, and by one. And a stream on a collection whose only event is the last one passes all others.
Figures are processor time of the server for a row.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bson import Timestamp
from pymongo import MongoClient

from bench.drain import BATCH, sample
from bench.figures import print_goal
from bench.server_process import Document, ServerProcess, serving
from bench.spark_history import FULL_VARIABLE
from tailrace.mongod.store.store import Store
from tailrace.testing.history_builder import HistoryBuilder

EVENTS, EVENTS_FULL = 640_000, 3_200_000
STREAMS = (1, 8, 32)
BATCHES = 500
OPLOG_MEGABYTES = 8192
ROUNDS = 2


def fill(client: "MongoClient[Document]", events: int) -> list[Timestamp]:
    """Insert documents, and one elsewhere at the end; return the times before each of the batches."""
    times: list[Timestamp] = []
    with client.start_session() as session:
        session.client.admin.command("ping", session=session)
        for start in range(0, events, BATCH):
            assert session.operation_time is not None
            times.append(session.operation_time)
            client.bench.plain.insert_many(
                [sample(number) for number in range(start, start + BATCH)], session=session
            )
        client.bench.rare.insert_one({"_id": "last"}, session=session)
    return times


def in_turn(server: ServerProcess, times: Sequence[Timestamp], streams: int) -> float:
    """Read all rows by some streams, in turn; return the processor time of a row."""
    each = len(times) // streams * BATCH
    places = [times[number * len(times) // streams] for number in range(streams)]
    bench = server.client.bench
    before, shown = server.usage().seconds, 0
    with ExitStack() as opened:
        cursors = [
            opened.enter_context(
                bench.plain.aggregate_raw_batches(
                    [{"$changeStream": {"startAtOperationTime": place}}], batchSize=BATCHES
                )
            )
            for place in places
        ]
        for _ in range(each // BATCHES):
            for cursor in cursors:
                next(cursor)
                shown += BATCHES
    return (server.usage().seconds - before) / shown


def passed_over(server: ServerProcess, began: Timestamp, events: int) -> float:
    """Read the stream of the collection with one event; return the processor time for a row before it."""
    before = server.usage().seconds
    with server.client.bench.rare.watch(start_at_operation_time=began) as changes:
        next(changes)
    return (server.usage().seconds - before) / events


def main() -> None:
    events = EVENTS_FULL if os.environ.get(FULL_VARIABLE) else EVENTS
    print(f"history-streams: a history of {events:,} inserts, {ROUNDS} rounds, best of each")
    with TemporaryDirectory(prefix="tailrace-bench-") as folder:
        data, history = Path(folder) / "data", Path(folder) / "history"
        kept = ("--data", str(data), "--oplog-size", str(OPLOG_MEGABYTES))
        with serving("history_streams", *kept) as server:
            times = fill(server.client, events)
        store = Store.open(data, oplog_size=OPLOG_MEGABYTES << 20)
        HistoryBuilder(store, history).build()
        store.close()
        cost = dict.fromkeys(STREAMS, float("inf"))
        other = float("inf")
        for _ in range(ROUNDS):
            options = (*kept, "--no-spark", "--history", str(history), "--head", "off")
            with serving("history_streams", *options) as server:
                for streams in STREAMS:
                    cost[streams] = min(cost[streams], in_turn(server, times, streams))
                other = min(other, passed_over(server, times[0], events))
    for streams, seconds in cost.items():
        print(f"  {f'{streams} streams at different places':<34}{seconds * 1e6:8.2f} us a row")
    print(f"  {'rows of another collection':<34}{other * 1e6:8.3f} us a row")
    print_goal("a row of the 32 streams, in us", cost[STREAMS[-1]] * 1e6, "at most 4")
    print_goal("a row of another collection, in us", other * 1e6, "below 0.1")
