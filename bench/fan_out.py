"""Time from an insert until 1,000 streams on the collection have its event.

Inserts are sent at fixed times, no matter whether earlier ones were acknowledged, so that a slow server does
not reduce the load. Times are measured from the acknowledgement of an insert, and from its sending, until a
stream's client has read the reply with the event.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from bson import Int64
from pymongo import MongoClient
from pymongo.collection import Collection

from bench.figures import percentile, print_goal, print_times
from bench.server_process import Document, serving
from bench.watching import watching

STREAMS = 1_000
WRITES_PER_SECOND = 20
SECONDS = 10
WAIT_MS = 60_000
WRITERS = 20
SETTLE = 1


class Writer:
    def __init__(self, collection: Collection[Document]) -> None:
        self._collection = collection
        self.sent: dict[int, float] = {}
        self.acknowledged: dict[int, float] = {}

    def run(self, count: int) -> None:
        began = time.monotonic()
        with ThreadPoolExecutor(WRITERS) as threads:
            for number in range(count):
                time.sleep(max(0, began + number / WRITES_PER_SECOND - time.monotonic()))
                threads.submit(self._insert, number)

    def _insert(self, number: int) -> None:
        self.sent[number] = time.monotonic()
        self._collection.insert_one({"_id": number, "number": Int64(number), "text": "x" * 100})
        self.acknowledged[number] = time.monotonic()


def main() -> None:
    print(f"fan-out: {STREAMS} collection streams, {WRITES_PER_SECOND} inserts/s for {SECONDS} s")
    with serving("fan_out") as server, MongoClient[Document](server.uri, minPoolSize=WRITERS) as client:
        # The writers' connections are opened before: one for each thread, as in an application.
        collection = client.bench.events
        collection.insert_one({"_id": "first"})
        writer = Writer(collection)
        with watching(server, STREAMS, WAIT_MS) as streams:
            time.sleep(SETTLE)
            began, before = time.monotonic(), server.usage().seconds
            writer.run(WRITES_PER_SECOND * SECONDS)
            elapsed, used = time.monotonic() - began, server.usage().seconds - before
            time.sleep(1)
            streams.stop()
    sent, acknowledged, arrivals = writer.sent, writer.acknowledged, streams.arrivals
    if any(len(arrivals.get(number, ())) != STREAMS for number in sent):
        raise SystemExit("a stream missed an event or had it twice")
    print_times("acknowledged", [acknowledged[number] - sent[number] for number in sent])
    print_times(
        "acknowledged to one stream",
        [arrival - acknowledged[number] for number in sent for arrival in arrivals[number]],
    )
    to_all = [max(arrivals[number]) - acknowledged[number] for number in sent]
    print_times("acknowledged to all streams", to_all)
    print_times("sent to all streams", [max(arrivals[number]) - sent[number] for number in sent])
    events = len(sent) * STREAMS
    print(
        f"  {events:,} events in {streams.replies:,} replies; "
        f"the server used {used / elapsed:.0%} of a core, {used / streams.replies * 1e6:.0f} µs for a reply; "
        f"the clients {streams.used:.0%}"
    )
    print_goal("p99 to all streams", percentile(to_all, 99) * 1000, "below 250", " ms")
