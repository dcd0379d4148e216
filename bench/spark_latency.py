"""From an acknowledged insert to its event in a stream that is served from the history alone (`--head off`).

The way is: oplog, a batch of the Spark pipeline, a Parquet file, a Delta commit, the server that notices it,
the stream. The server is idle before each insert. Beside it stands what an insert itself takes.
"""

import random
import threading
from time import monotonic, perf_counter, sleep

from pymongo.collection import Collection

from bench.figures import percentile, print_goal, print_times
from bench.server_process import Document, serving

ROUNDS = 100
WARM_UP = 30
LONGEST_PAUSE = 0.4
"""between rounds; drawn by chance, so that inserts do not fall into step with the pipeline"""
SECONDS_TO_START = 120
GOAL = 0.150


class Watcher(threading.Thread):
    """A `watch` loop that notes when events arrive."""

    def __init__(self, collection: Collection[Document]) -> None:
        super().__init__(name="watcher")
        self._stream = collection.watch(max_await_time_ms=10_000)
        self._arrived = threading.Semaphore(0)
        self.times: list[float] = []

    def run(self) -> None:
        with self._stream:
            for event in self._stream:
                self.times.append(perf_counter())
                self._arrived.release()
                if event["fullDocument"]["_id"] == WARM_UP + ROUNDS - 1:
                    return

    def wait(self) -> None:
        if not self._arrived.acquire(timeout=SECONDS_TO_START):
            raise SystemExit("an event did not arrive")


def main() -> None:
    print(f"spark-latency: {ROUNDS} inserts into an idle server, one stream, --head off")
    rng = random.Random(1)
    sent, acknowledged = [], []
    with serving("spark_latency", "--head", "off") as server:
        collection = server.client.bench.latency
        collection.insert_one({"_id": "first"})
        watcher = Watcher(collection)
        watcher.start()
        began = monotonic()
        for number in range(WARM_UP + ROUNDS):
            sent.append(perf_counter())
            collection.insert_one({"_id": number, "text": "x" * 100})
            acknowledged.append(perf_counter())
            watcher.wait()
            if number == 0:
                print(f"  {'first event, Spark started':<34}{monotonic() - began:8.1f} s", flush=True)
            sleep(rng.uniform(0.05, LONGEST_PAUSE))
        watcher.join()
    inserts = [end - start for start, end in zip(sent, acknowledged, strict=True)][WARM_UP:]
    after = [end - start for start, end in zip(acknowledged, watcher.times, strict=True)][WARM_UP:]
    print_times("insert, acknowledged", inserts)
    print_times("insert acknowledged to event", after)
    print_goal("p50", percentile(after, 50) * 1000, f"at most {GOAL * 1000:.0f} ms", " ms")


if __name__ == "__main__":
    main()
