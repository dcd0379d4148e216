"""One change stream through a router: the cost of merging shards, and the effect of idle shards on latency.

Clusters of one, three and five shards, and a replica set, have the same documents, distributed by their
hashed `_id`. One cursor reads all inserts, many of which share an entry, and then all updates, one in each
entry; in raw batches, which measures the server. The rounds alternate, and the cost of merging is measured in
processor time, so that other load on the machine affects the result little. For latency the clients write to
one shard of five, and the others are idle.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter, sleep

from bson import Timestamp
from pymongo.collection import Collection

from bench.drain import count_raw, sample
from bench.figures import percentile, print_goal, print_times
from bench.latency import PAUSE, ROUNDS, WARM_UP, Watcher
from bench.server_process import Document, ServerProcess, serving

DOCUMENTS = 24_000
"""Few enough for the head of one shard, too many for the output that streams with the same options share."""
BATCH = 4_000
TURNS = 6
SHARDS = (1, 3, 5)
PARTS = ("inserts", "updates")
IDLE_SHARDS = 4


@contextmanager
def cluster(shards: int) -> Iterator[ServerProcess]:
    with serving(f"sharded-{shards}", "--shards", str(shards), "--oplog-size", "1024") as server:
        yield server


class Deployment:
    """A collection with all inserts and updates, and the times at which both begin."""

    def __init__(self, server: ServerProcess, documents: int = DOCUMENTS) -> None:
        self._server = server
        self._documents = documents
        client = server.client
        self.collection: Collection[Document] = client.bench.drain
        if client.admin.command("hello").get("msg") == "isdbgrid":
            client.admin.command("enableSharding", "bench")
            client.admin.command("shardCollection", "bench.drain", key={"_id": "hashed"})
        self.starts = {"inserts": self._now()}
        for start in range(0, documents, BATCH):
            # Unordered: otherwise a router waits for a shard whenever the next document is on another one.
            batch = [sample(number) for number in range(start, start + BATCH)]
            self.collection.insert_many(batch, ordered=False)
        self.starts["updates"] = self._now()
        self.collection.update_many({}, {"$set": {"amount": 1}})

    def _now(self) -> Timestamp:
        with self.collection.database.client.start_session() as session:
            self.collection.database.client.bench.other.insert_one({}, session=session)
            assert session.operation_time is not None
            return session.operation_time

    def read(self, part: str) -> tuple[float, float]:
        """Read a part of the stream; return seconds and the server's processor seconds for an event."""
        stage: Document = {"$changeStream": {"startAtOperationTime": self.starts[part]}}
        used, began = self._server.usage().seconds, perf_counter()
        with self.collection.aggregate_raw_batches([stage]) as batches:
            found = count_raw(batches, self._documents)
        if found < self._documents:
            raise SystemExit(f"{found} events instead of {self._documents}")
        taken = perf_counter() - began
        return taken / found, (self._server.usage().seconds - used) / found


def merge() -> None:
    print(f"sharded-streams: {DOCUMENTS:,} inserts and as many updates, {TURNS} rounds, best of each")
    with ExitStack() as stack:
        servers = {"replica set": stack.enter_context(serving("sharded-0", "--oplog-size", "1024"))}
        for shards in SHARDS:
            servers[f"{shards} shards"] = stack.enter_context(cluster(shards))
        deployments = {name: Deployment(server) for name, server in servers.items()}
        rounds: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for _ in range(TURNS):
            for name, deployment in deployments.items():
                for part in PARTS:
                    rounds[part, name].append(deployment.read(part))
    used = {key: min(cost for _, cost in found) for key, found in rounds.items()}
    for part in PARTS:
        for name in deployments:
            rate = 1 / min(taken for taken, _ in rounds[part, name])
            shown = f"{rate:10,.0f} events/s   {used[part, name] * 1e6:6.2f} µs of the server for each"
            print(f"  {part + ', ' + name:<34}{shown}", flush=True)
        for shards in SHARDS[1:]:
            ratio = used[part, f"{SHARDS[0]} shards"] / used[part, f"{shards} shards"]
            print_goal(f"{part}, {shards} shards to 1", ratio, "at least 0.8")


class Probe:
    """A collection with a stream on it."""

    def __init__(self, server: ServerProcess) -> None:
        self._collection: Collection[Document] = server.client.bench.latency
        self._collection.insert_one({"_id": "first"})
        self._watcher = Watcher(self._collection)
        self._acknowledged: list[float] = []

    def insert(self, number: int) -> None:
        """Insert a document and wait for its event."""
        self._collection.insert_one({"_id": number, "text": "x" * 100})
        self._acknowledged.append(perf_counter())
        self._watcher.wait()
        sleep(PAUSE)

    def latencies(self) -> list[float]:
        """From acknowledged inserts to their events, in seconds."""
        self._watcher.join()
        times = zip(self._acknowledged, self._watcher.times, strict=True)
        return [end - start for start, end in times][WARM_UP:]


def idle_shards() -> None:
    print(f"sharded-streams: {ROUNDS} inserts into one shard, {IDLE_SHARDS} others idle, one stream")
    with serving("sharded-latency-0") as alone, cluster(IDLE_SHARDS + 1) as shards:
        probes = Probe(alone), Probe(shards)
        pings = []
        for number in range(WARM_UP + ROUNDS):
            began = perf_counter()
            shards.client.admin.command("ping")
            pings.append(perf_counter() - began)
            for probe in probes:
                probe.insert(number)
        reference, found = (probe.latencies() for probe in probes)
    print_times("ping", pings)
    print_times("replica set", reference)
    print_times(f"cluster of {IDLE_SHARDS + 1} shards", found)
    # An event may arrive before the acknowledgement: times below a ping are not distinguished.
    least = percentile(pings, 50)
    for percent in (50, 99):
        ratio = max(percentile(found, percent), least) / max(percentile(reference, percent), least)
        print_goal(f"p{percent}, cluster to replica set", ratio, "at most 3")


def main() -> None:
    merge()
    idle_shards()
