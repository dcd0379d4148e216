"""The laws on sharded clusters: clients on two routers, ranges that move, collections that are resharded.

The same random operations run on a cluster of one, two or five shards and on a replica set. The streams of
both have to show the same changes of each document; only events of sharding itself may differ.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

from tailrace.bson import documents as bsondocs
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.scope import Scope
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.laws.law_seeds import BASE_SEED
from tests.laws.test_scope import touches, without_invalidations
from tests.laws.wire_streams import WireStream, check_order, check_replay, note, oplog_of
from tests.support.client_workload import COLLECTIONS, ClientWorkload
from tests.support.history import Documents, History, identity, timestamp_of
from tests.support.streams import Stream, cluster_time_of, operation_type, token_of

RUNS = [(1, 0), (2, 1), (5, 2)]
SLOW_RUNS = [(shards, 10 + number) for number in range(30) for shards in (1, 2, 5)]
STEPS, OPERATIONS = 6, 20
MOST_SHARDS = 6

SPEC = {"showRawUpdateDescription": True, "showExpandedEvents": True}
SHARDING_EVENTS = frozenset({"shardCollection", "refineCollectionShardKey", "reshardCollection"})
ONCE_PER_SHARD = frozenset({"drop", "createIndexes", "dropIndexes", "modify"})


@dataclass
class Run:
    """The operations of one seed, and the documents at some moments between them."""

    seed: int
    cluster: ShardedCluster
    workload: ClientWorkload
    start: Timestamp
    reference: ReplicaSet
    reference_start: Timestamp
    moments: list[tuple[Timestamp, Documents]] = field(default_factory=list)
    reference_end: Timestamp = field(init=False)
    disturbances: list[str] = field(default_factory=list)

    @property
    def end(self) -> Timestamp:
        return self.moments[-1][0]

    def stream(self, namespace: str = "", router: int = 0, **spec: Any) -> WireStream:
        sizes = random.Random(self.seed).choice(((1,), (3, 0, 7), (101,), (2, 1, 50)))
        started = {**SPEC, "startAtOperationTime": self.start, **spec}
        return WireStream(self.cluster.client(router), namespace, started, sizes=sizes)


class Disturbance:
    """Random commands of an administrator, run while clients use the cluster."""

    def __init__(self, cluster: ShardedCluster, seed: int, databases: list[str]) -> None:
        self._rng = random.Random(seed)
        self._cluster = cluster
        self._admin = cluster.client().admin
        self._databases = databases

    def run_command(self) -> str:
        """Run one command; return its name, and the error code if it was refused."""
        name, command = self._rng.choice(
            (
                ("shard", self._shard),
                ("shard", self._shard),
                ("split", self._split),
                ("move", self._move),
                ("move", self._move),
                ("move primary", self._move_primary),
                ("reshard", self._reshard),
                ("add shard", self._add_shard),
            )
        )
        try:
            command()
        except OperationFailure as error:
            if error.code in (None, 1):
                raise  # a fault of the server, not a refusal
            return f"{name} refused: {error.code}"
        return name

    def _namespace(self) -> str:
        return f"{self._rng.choice(self._databases)}.{self._rng.choice(COLLECTIONS)}"

    def _sharded(self) -> dict[str, Any]:
        found = list(self._admin.client.config.collections.find({"unsplittable": {"$ne": True}}))
        own = [one for one in found if one["_id"].partition(".")[0] in self._databases]
        return self._rng.choice(own) if own else {"_id": self._namespace(), "key": {"_id": 1}}

    def _shard(self) -> None:
        # A missing collection would be created; on the replica set it would not.
        database = self._admin.client[self._rng.choice(self._databases)]
        names = sorted(database.list_collection_names(filter={"type": "collection"}))
        own = [name for name in names if not name.startswith("system.")]
        if own:
            key = self._rng.choice(({"_id": 1}, {"_id": "hashed"}))
            self._admin.command("shardCollection", f"{database.name}.{self._rng.choice(own)}", key=key)

    def _split(self) -> None:
        collection = self._sharded()
        if "hashed" in collection["key"].values():
            return
        self._admin.command("split", collection["_id"], middle={"_id": self._rng.randrange(40)})

    def _move(self) -> None:
        collection = self._sharded()
        chunks = list(self._admin.client.config.chunks.find({"uuid": collection.get("uuid")}))
        if chunks:
            chunk = self._rng.choice(chunks)
            self._admin.command(
                "moveRange",
                collection["_id"],
                min=chunk["min"],
                toShard=self._rng.choice(self._cluster.shards),
            )

    def _move_primary(self) -> None:
        database = self._rng.choice(self._databases)
        self._admin.command("movePrimary", database, to=self._rng.choice(self._cluster.shards))

    def _add_shard(self) -> None:
        if len(self._cluster.shards) < MOST_SHARDS:
            self._admin.command("addShard", "")

    def _reshard(self) -> None:
        key = self._rng.choice(({"_id": 1}, {"_id": "hashed"}))
        self._admin.command("reshardCollection", self._sharded()["_id"], key=key)


@pytest.fixture(
    scope="module",
    params=[*RUNS, *(pytest.param(run, marks=pytest.mark.slow) for run in SLOW_RUNS)],
    ids=lambda run: f"{run[0]} shards, seed {BASE_SEED + run[1]}",
)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    shards, seed = request.param[0], BASE_SEED + request.param[1]
    with ShardedCluster(shards=shards, routers=2) as cluster, ReplicaSet() as reference:
        client, reference_client = cluster.client(), reference.client()
        workload = ClientWorkload(client, seed, "law", for_comparison=True)
        same = ClientWorkload(reference_client, seed, "law", for_comparison=True)
        done = Run(seed, cluster, workload, note(client), reference, note(reference_client))
        disturbance = Disturbance(cluster, seed, workload.databases)
        for _ in range(STEPS):
            for _ in range(2):
                workload.run(OPERATIONS // 2)
                same.run(OPERATIONS // 2)
                done.disturbances.append(disturbance.run_command())
            done.moments.append((note(client), workload.content()))
            assert workload.content() == same.content(), done.disturbances
        done.reference_end = note(reference_client)
        yield done


def test_most_operations_are_carried_out(run: Run) -> None:
    """Otherwise the laws could hold because the cluster refused every operation."""
    assert run.workload.done.total() > STEPS * OPERATIONS * 0.5, run.workload.refused
    assert sum("refused" not in name for name in run.disturbances) >= STEPS / 2, run.disturbances


def test_replay(run: Run) -> None:
    """Folding the events over nothing gives the documents that `find` gave, at every moment."""
    check_replay(run.stream().all_events(run.end), run.moments, run.disturbances)


def test_order(run: Run) -> None:
    """Tokens increase over all shards, and a position is between the events around it."""
    check_order(run.stream().read(run.end))


def test_scope(run: Run) -> None:
    """A collection's stream is its database's stream filtered, which is the cluster's stream filtered."""
    of_cluster = run.stream().all_events(run.end)
    for database in run.workload.databases:
        found = run.stream(database, router=1).all_events(run.end)
        of_database = without_invalidations(Scope.parse_ns(database), found)
        assert of_database == [event for event in of_cluster if touches(event, db=database)]
        for name in COLLECTIONS:
            found = run.stream(f"{database}.{name}").all_events(run.end)
            of_collection = [event for event in found if operation_type(event) != "invalidate"]
            assert of_collection == [event for event in of_database if touches(event, db=database, coll=name)]


def test_resume(run: Run) -> None:
    """A stream resumed after an event, on another router, shows exactly the later events."""
    rng = random.Random(run.seed)
    for namespace in ("", run.workload.databases[0]):
        batches = run.stream(namespace).read(run.end)
        events = [event for batch, _ in batches for event in batch]
        other = run.stream(namespace, router=1)
        for place in rng.sample(range(len(events)), min(8, len(events))):
            if operation_type(events[place]) != "invalidate":
                rest = other.resumed(resumeAfter=token_of(events[place])).events(run.end)
                assert rest == events[place + 1 :], place


def test_the_local_engine_makes_the_same_events_of_the_shards_oplogs(run: Run) -> None:
    logs = [oplog_of(run.cluster.shard_client(name)) for name in run.cluster.shards]
    history = History(
        run.seed, sorted((entry for log in logs for entry in log), key=timestamp_of), [], {}, {}
    )
    spec = {**SPEC, "startAtOperationTime": run.start}
    end = from_timestamp(run.end)
    merged = Stream(history, Scope.cluster(), spec).events(logs)
    assert run.stream().events(run.end) == [event for event in merged if cluster_time_of(event) <= end]


def test_a_cluster_shows_what_a_replica_set_shows(run: Run) -> None:
    """The same changes of each document, in the same order, and of collections and databases."""
    on_cluster = run.stream().events(run.end)
    spec = {**SPEC, "startAtOperationTime": run.reference_start}
    on_replica_set = WireStream(run.reference.client(), "", spec).events(run.reference_end)
    assert histories_of_documents(on_cluster) == histories_of_documents(on_replica_set), run.disturbances
    assert changes_of_collections(on_cluster) == changes_of_collections(on_replica_set), run.disturbances


def histories_of_documents(events: list[bytes]) -> dict[tuple[str, bytes], list[Any]]:
    """Return the changes of each document, without fields that differ between deployments."""
    found: dict[tuple[str, bytes], list[Any]] = defaultdict(list)
    for raw in events:
        event = bsondocs.decode(raw)
        if "documentKey" in event:
            key = identity(bsondocs.encode(event["documentKey"]))
            shown = {
                name: event.get(name) for name in ("operationType", "fullDocument", "rawUpdateDescription")
            }
            found[f"{event['ns']['db']}.{event['ns']['coll']}", key].append(bsondocs.encode(shown))
    return dict(found)


def changes_of_collections(events: list[bytes]) -> list[Any]:
    """Return the changes of collections and databases; an event that every shard shows counts once.

    One command can create or drop several collections, and a cluster does that shard by shard: the order of
    consecutive events of one type is not compared.
    """
    found: list[Any] = []
    for raw in events:
        event = bsondocs.decode(raw)
        kind = event["operationType"]
        if "documentKey" in event or kind in SHARDING_EVENTS or is_for_sharding(event):
            continue
        shown = (kind, event["ns"], event.get("to"), kind != "create" and described(event))
        if kind not in ONCE_PER_SHARD or not found or found[-1] != shown:
            found.append(shown)
    return [sorted(group, key=repr) for _, group in groupby(found, key=lambda shown: shown[0])]


def is_for_sharding(event: dict[str, Any]) -> bool:
    """Return whether an event creates the index that a hashed shard key needs."""
    indexes = event.get("operationDescription", {}).get("indexes", [])
    return any("hashed" in index["key"].values() for index in indexes)


def described(event: dict[str, Any]) -> Any:
    description = dict(event.get("operationDescription") or {})
    description.pop("dropTarget", None)  # a UUID
    return description
