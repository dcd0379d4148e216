"""The laws on sharded clusters: clients on two routers, ranges that move, collections that are resharded.

A cluster of one, two or five shards is played with, and a replica set is asked for the same operations. What
the streams of both tell of each document has to be the same; sharding itself may show on the cluster alone.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

from tailrace.bson import documents as bsondocs
from tailrace.events.scope import Scope
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.laws.law_seeds import BASE_SEED
from tests.laws.test_scope import touches, without_invalidations
from tests.laws.wire_streams import WireStream, note, oplog_of
from tests.support.client_workload import COLLECTIONS, ClientWorkload
from tests.support.folding import Fold
from tests.support.history import Documents, History, identity, timestamp_of
from tests.support.streams import Stream, cluster_time_of, operation_type, token_of

RUNS = [(1, 0), (2, 1), (5, 2)]
SLOW_RUNS = [(shards, 10 + number) for number in range(30) for shards in (1, 2, 5)]
STEPS, OPERATIONS = 6, 20
MOST_SHARDS = 6

SPEC = {"showRawUpdateDescription": True, "showExpandedEvents": True}
OF_SHARDING = frozenset({"shardCollection", "refineCollectionShardKey", "reshardCollection"})
ONCE_PER_SHARD = frozenset({"drop", "createIndexes", "dropIndexes", "modify"})


@dataclass
class Run:
    """What was done with one seed, and what was true at some moments of it."""

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
    """What an administrator does to a cluster while clients work on it."""

    def __init__(self, cluster: ShardedCluster, seed: int, databases: list[str]) -> None:
        self._rng = random.Random(seed)
        self._cluster = cluster
        self._admin = cluster.client().admin
        self._databases = databases

    def strike(self) -> str:
        """Do something; its name, or why it was refused."""
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
                raise  # no refusal, but a fault
            return f"{name} refused: {error.code}"
        return name

    def _namespace(self) -> str:
        return f"{self._rng.choice(self._databases)}.{self._rng.choice(COLLECTIONS)}"

    def _sharded(self) -> dict[str, Any]:
        found = list(self._admin.client.config.collections.find({"unsplittable": {"$ne": True}}))
        own = [one for one in found if one["_id"].partition(".")[0] in self._databases]
        return self._rng.choice(own) if own else {"_id": self._namespace(), "key": {"_id": 1}}

    def _shard(self) -> None:
        # One that is not there would be created, which the replica set is not asked for.
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
        client, alone = cluster.client(), reference.client()
        workload = ClientWorkload(client, seed, "law", for_comparison=True)
        same = ClientWorkload(alone, seed, "law", for_comparison=True)
        played = Run(seed, cluster, workload, note(client), reference, note(alone))
        disturbance = Disturbance(cluster, seed, workload.databases)
        for _ in range(STEPS):
            for _ in range(2):
                workload.run(OPERATIONS // 2)
                same.run(OPERATIONS // 2)
                played.disturbances.append(disturbance.strike())
            played.moments.append((note(client), workload.content()))
            assert workload.content() == same.content(), played.disturbances
        played.reference_end = note(alone)
        yield played


def test_most_operations_are_carried_out(run: Run) -> None:
    """The laws would hold on a cluster that refused everything."""
    assert run.workload.done.total() > STEPS * OPERATIONS * 0.5, run.workload.refused
    assert sum("refused" not in name for name in run.disturbances) >= STEPS / 2, run.disturbances


def test_replay(run: Run) -> None:
    """Folding the events over nothing gives the documents that `find` gave, at every moment."""
    fold = Fold({})
    events = iter(run.stream().all_events(run.end))
    event = next(events, None)
    for moment, content in run.moments:
        while event is not None and cluster_time_of(event) <= (moment.time << 32 | moment.inc):
            fold.apply(event)
            event = next(events, None)
        assert fold.content() == content, run.disturbances
    assert event is None


def test_order(run: Run) -> None:
    """Tokens rise over all shards, and a position lies between the events around it."""
    batches = run.stream().read(run.end)
    events = [event for batch, _ in batches for event in batch]
    tokens = [token_of(event)["_data"] for event in events]
    assert all(earlier < later for earlier, later in pairwise(tokens))
    passed = 0
    for batch, position in batches:
        passed += len(batch)
        assert passed == 0 or tokens[passed - 1] <= position["_data"]
        assert passed == len(tokens) or position["_data"] <= tokens[passed]


def test_scope(run: Run) -> None:
    """A collection's stream is the database's filtered, which is the cluster's filtered."""
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
    """After an event, and from the position behind a batch, comes exactly the rest, on any router."""
    rng = random.Random(run.seed)
    for namespace in ("", run.workload.databases[0]):
        batches = run.stream(namespace).read(run.end)
        events = [event for batch, _ in batches for event in batch]
        other = run.stream(namespace, router=1)
        for place in rng.sample(range(len(events)), min(8, len(events))):
            if operation_type(events[place]) != "invalidate":
                rest = other.resumed(resumeAfter=token_of(events[place])).events(run.end)
                assert rest == events[place + 1 :], place


def test_the_oplogs_tell_the_same(run: Run) -> None:
    """The local engine makes the same bytes of the shards' oplogs."""
    logs = [oplog_of(run.cluster.shard_client(name)) for name in run.cluster.shards]
    history = History(
        run.seed, sorted((entry for log in logs for entry in log), key=timestamp_of), [], {}, {}
    )
    spec = {**SPEC, "startAtOperationTime": run.start}
    end = run.end.time << 32 | run.end.inc
    merged = Stream(history, Scope.cluster(), spec).events(logs)
    assert run.stream().events(run.end) == [event for event in merged if cluster_time_of(event) <= end]


def test_a_cluster_shows_what_a_replica_set_shows(run: Run) -> None:
    """Each document's story is the same, and so is what happened to collections and databases."""
    on_cluster = run.stream().events(run.end)
    spec = {**SPEC, "startAtOperationTime": run.reference_start}
    alone = WireStream(run.reference.client(), "", spec).events(run.reference_end)
    assert stories(on_cluster) == stories(alone), run.disturbances
    assert of_collections(on_cluster) == of_collections(alone), run.disturbances


def stories(events: list[bytes]) -> dict[tuple[str, bytes], list[Any]]:
    """What happened to each document, without what is of one deployment alone."""
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


def of_collections(events: list[bytes]) -> list[Any]:
    """What happened to collections and databases; what each shard tells counts once.

    One command can create or drop several collections, and a cluster does that shard by shard: the order
    within a run of these is not compared.
    """
    found: list[Any] = []
    for raw in events:
        event = bsondocs.decode(raw)
        kind = event["operationType"]
        if "documentKey" in event or kind in OF_SHARDING or is_for_sharding(event):
            continue
        shown = (kind, event["ns"], event.get("to"), kind != "create" and described(event))
        if kind not in ONCE_PER_SHARD or not found or found[-1] != shown:
            found.append(shown)
    return [sorted(run, key=repr) for _, run in groupby(found, key=lambda shown: shown[0])]


def is_for_sharding(event: dict[str, Any]) -> bool:
    """Whether it makes the index that a hashed shard key needs."""
    indexes = event.get("operationDescription", {}).get("indexes", [])
    return any("hashed" in index["key"].values() for index in indexes)


def described(event: dict[str, Any]) -> Any:
    description = dict(event.get("operationDescription") or {})
    description.pop("dropTarget", None)  # a UUID
    return description
