"""Documents per second by `insert_many` in batches of 1,000, and what oplog, streams and images cost.

A collection in `local` is not in the oplog; everything else is compared with it. Streams are open and read
while the documents are written, by a process of their own. An insert has no pre-image; what one costs is
shown by updates.
"""

from time import perf_counter

from bson import Int64
from pymongo.collection import Collection

from bench.server_process import Document, ServerProcess, serving
from bench.watching import watching

DOCUMENTS = 50_000
BATCH = 1_000
ROUNDS = 3
WAIT_MS = 60_000


def insert(collection: Collection[Document]) -> float:
    """Documents per second."""
    collection.delete_many({})
    batches = [
        [
            {"_id": number, "number": Int64(number), "customer": "customer", "note": "x" * 100}
            for number in range(start, start + BATCH)
        ]
        for start in range(0, DOCUMENTS, BATCH)
    ]
    began = perf_counter()
    for batch in batches:
        collection.insert_many(batch)
    return DOCUMENTS / (perf_counter() - began)


def update(collection: Collection[Document]) -> float:
    """Updates per second of one statement that changes all documents."""
    began = perf_counter()
    result = collection.update_many({}, {"$inc": {"number": 1}})
    return result.modified_count / (perf_counter() - began)


def insert_watched(server: ServerProcess, streams: int) -> float:
    with watching(server, streams, WAIT_MS) as watched:
        rate = insert(server.client.bench.events)
        watched.stop()
    return rate


def main() -> None:
    print(f"insert: {DOCUMENTS:,} documents by insert_many of {BATCH:,}, {ROUNDS} rounds, best of each")
    best: dict[str, float] = {}

    def note(name: str, rate: float) -> None:
        best[name] = max(best.get(name, 0.0), rate)

    with serving("insert") as server:
        database = server.client.bench
        database.create_collection("events")
        with_images = database.create_collection("images", changeStreamPreAndPostImages={"enabled": True})
        for _ in range(ROUNDS):
            note("without oplog", insert(server.client.local.bench))
            note("with oplog", insert(database.events))
            for streams in (1, 10):
                note(f"with oplog, {streams} streams", insert_watched(server, streams))
            note("with oplog, images on", insert(with_images))
            note("updates", update(database.events))
            note("updates, images on", update(with_images))
    for name, rate in best.items():
        base = best["updates" if name.startswith("updates") else "without oplog"]
        print(f"  {name:<34}{rate:10,.0f} documents/s   {rate / base:6.2f}")
