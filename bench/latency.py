"""From an acknowledged insert to its event in a PyMongo `watch` loop, against the ping of the same client.

One thread pings and inserts, another one watches; both use one `MongoClient`. An event can arrive before the
acknowledgement of its insert: the latency is then negative. The time of the
insert, with the sync of the disk, is printed as well.
"""

import threading
from time import perf_counter, sleep

from pymongo.collection import Collection

from bench.figures import percentile, print_goal, print_times
from bench.server_process import Document, serving

ROUNDS = 1_000
WARM_UP = 50
PAUSE = 0.002
"""Between rounds, so that the stream waits again before the next insert."""


class Watcher:
    """A `watch` loop in a thread, which records when events arrive, up to the insert of ``last``."""

    def __init__(
        self,
        collection: Collection[Document],
        *,
        last: int = WARM_UP + ROUNDS - 1,
        await_ms: int | None = None,
        seconds: float = 10,
    ) -> None:
        """A getMore waits ``await_ms`` for an event, `wait` at most ``seconds``."""
        self._stream = collection.watch(max_await_time_ms=await_ms)
        self._last = last
        self._seconds = seconds
        self._arrived = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run)
        self.times: list[float] = []
        self._thread.start()

    def _run(self) -> None:
        with self._stream:
            for event in self._stream:
                self.times.append(perf_counter())
                self._arrived.release()
                if event["fullDocument"]["_id"] == self._last:
                    return

    def wait(self) -> None:
        if not self._arrived.acquire(timeout=self._seconds):
            raise SystemExit("an event did not arrive")

    def join(self) -> None:
        self._thread.join()


def main() -> None:
    print(f"latency: {ROUNDS} inserts, one stream, PyMongo")
    pings, sent, acknowledged = [], [], []
    with serving("latency") as server:
        admin, collection = server.client.admin, server.client.bench.latency
        collection.insert_one({"_id": "first"})
        watcher = Watcher(collection)
        for number in range(WARM_UP + ROUNDS):
            began = perf_counter()
            admin.command("ping")
            pings.append(perf_counter() - began)
            sent.append(perf_counter())
            collection.insert_one({"_id": number, "text": "x" * 100})
            acknowledged.append(perf_counter())
            watcher.wait()
            sleep(PAUSE)
        watcher.join()
    pings = pings[WARM_UP:]
    inserts = [end - start for start, end in zip(sent, acknowledged, strict=True)][WARM_UP:]
    whole = [end - start for start, end in zip(sent, watcher.times, strict=True)][WARM_UP:]
    after = [end - start for start, end in zip(acknowledged, watcher.times, strict=True)][WARM_UP:]
    print_times("ping", pings)
    print_times("insert, acknowledged", inserts)
    print_times("insert sent to event", whole)
    print_times("insert acknowledged to event", after)
    print_goal("p50, in pings", percentile(after, 50) / percentile(pings, 50), "at most 3")
    print_goal("p99, in pings", percentile(after, 99) / percentile(pings, 99), "at most 10")
