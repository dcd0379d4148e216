"""Documents per second by `insert_many` in batches of 1,000, and the cost of oplog, streams and images.

A collection in `local` is not in the oplog; everything else is compared with it. Another process reads the
streams while the documents are written. An insert has no pre-image, so updates show the cost of one. The
server's processor time for a document is printed as well: it does not depend on how many processes share the
cores.
"""

from collections.abc import Callable
from time import perf_counter

from bson import Int64
from pymongo.collection import Collection

from bench.server_process import Document, ServerProcess, serving
from bench.watching import watching

DOCUMENTS = 50_000
BATCH = 1_000
ROUNDS = 3
WAIT_MS = 60_000


def insert(collection: Collection[Document]) -> None:
    for start in range(0, DOCUMENTS, BATCH):
        collection.insert_many(
            [
                {"_id": number, "number": Int64(number), "customer": "customer", "note": "x" * 100}
                for number in range(start, start + BATCH)
            ]
        )


def update(collection: Collection[Document]) -> None:
    """Change all documents with one statement."""
    collection.update_many({}, {"$inc": {"number": 1}})


class Measurement:
    """The best of several rounds, by name."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.rates: dict[str, float] = {}
        self.used: dict[str, float] = {}

    def run(self, name: str, work: Callable[[Collection[Document]], None], on: Collection[Document]) -> None:
        before, began = self._server.usage().seconds, perf_counter()
        work(on)
        taken, used = perf_counter() - began, self._server.usage().seconds - before
        self.rates[name] = max(self.rates.get(name, 0.0), DOCUMENTS / taken)
        self.used[name] = min(self.used.get(name, float("inf")), used / DOCUMENTS)

    def print(self) -> None:
        for name, rate in self.rates.items():
            base = self.rates["updates" if name.startswith("updates") else "without oplog"]
            print(
                f"  {name:<34}{rate:10,.0f} documents/s   {rate / base:6.2f}   "
                f"{self.used[name] * 1e6:6.1f} µs of the server for each"
            )


def main() -> None:
    print(f"insert: {DOCUMENTS:,} documents by insert_many of {BATCH:,}, {ROUNDS} rounds, best of each")
    with serving("insert") as server:
        database = server.client.bench
        events = database.create_collection("events")
        with_images = database.create_collection("images", changeStreamPreAndPostImages={"enabled": True})
        measured = Measurement(server)
        for _ in range(ROUNDS):
            for collection in (server.client.local.bench, events, with_images):
                collection.delete_many({})
            measured.run("without oplog", insert, server.client.local.bench)
            measured.run("with oplog", insert, events)
            measured.run("with oplog, images on", insert, with_images)
            measured.run("updates", update, events)
            measured.run("updates, images on", update, with_images)
            for streams in (1, 10):
                events.delete_many({})
                with watching(server, streams, WAIT_MS) as watched:
                    measured.run(f"with oplog, {streams} streams", insert, events)
                    watched.stop()
        measured.print()
