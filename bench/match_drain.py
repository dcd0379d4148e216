"""100,000 changes through streams whose `$match` lets one in a thousand through, or fewer.

A change is an insert of about 200 bytes; one in ten is an update. Where `make mongod` has fetched a MongoDB,
it runs the same streams in turn, so that other load on the machine affects both.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bson import Timestamp
from pymongo import InsertOne, MongoClient, UpdateOne

from bench.drain import sample
from bench.figures import print_goal
from bench.server_process import Document, serving
from tests.oracle.real_server import missing_mongod, real_replica_set

CHANGES = 100_000
EACH = 1_000
ROUNDS = 3
OURS, REAL = "tailrace", "mongod"
FILTERS: dict[str, Document] = {
    "operationType": {"operationType": "delete"},
    "ns.coll": {"ns.coll": "rare"},
    "fullDocument, a number": {"operationType": "insert", "fullDocument.bucket": EACH - 1},
    "fullDocument, a string": {"fullDocument.name": f"name-{EACH - 1}", "operationType": "insert"},
    "documentKey": {"documentKey._id": CHANGES - 1},
}

Stream = Callable[[Document], int]


def fill(client: MongoClient[Document]) -> Timestamp:
    """Write the changes one by one entry; return the time to start from."""
    database = client.bench
    database.rare.insert_one({})
    database.often.insert_one({"_id": "first"})
    with client.start_session() as session:
        database.often.insert_one({"_id": "second"}, session=session)
        started = session.operation_time
        assert started is not None
    for start in range(0, CHANGES, EACH):
        writes: list[InsertOne[Document] | UpdateOne] = []
        for number in range(start, start + EACH):
            bucket = number % EACH
            document = {"_id": number, "bucket": bucket, "name": f"name-{bucket}", **sample(number)}
            if bucket % 10 == 5:
                writes.append(UpdateOne({"_id": number - 1}, {"$set": {"amount": 1.5}}))
            else:
                writes.append(InsertOne(document))
        database.often.bulk_write(writes, ordered=False)
        database.rare.insert_one({})
        database.often.delete_one({"_id": start})
    return started


def stream_of(client: MongoClient[Document], started: Timestamp) -> Stream:
    def stream(match: Document) -> int:
        wanted = CHANGES // EACH if "documentKey._id" not in match else 1
        pipeline = [{"$changeStream": {"startAtOperationTime": started}}, {"$match": match}]
        with client.bench.aggregate(pipeline, batchSize=1) as cursor:
            return sum(1 for _, _ in zip(range(wanted), cursor, strict=False))

    return stream


def main() -> None:
    print(f"match-drain: {CHANGES:,} changes, selective filters, {ROUNDS} rounds, best of each")
    with ExitStack() as stack:
        streams: dict[str, Stream] = {}
        server = stack.enter_context(serving("match-drain", "--oplog-size", "1024"))
        streams[OURS] = stream_of(server.client, fill(server.client))
        if missing_mongod() is None:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            client = stack.enter_context(stack.enter_context(real_replica_set(folder)).client())
            streams[REAL] = stream_of(client, fill(client))
        for name, match in FILTERS.items():
            best = dict.fromkeys(streams, 0.0)
            for _ in range(ROUNDS):
                for where, stream in streams.items():
                    began = perf_counter()
                    found = stream(match)
                    taken = perf_counter() - began
                    if not found:
                        raise SystemExit(f"{name}: no events")
                    best[where] = max(best[where], CHANGES / taken)
            rates = "   ".join(f"{where} {rate:10,.0f} changes/s" for where, rate in best.items())
            print(f"  {name:<34}{rates}")
            if REAL in best:
                print_goal(f"{name}, to mongod", best[OURS] / best[REAL], "at least 1")
