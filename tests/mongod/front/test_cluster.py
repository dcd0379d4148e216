"""Streams through a server in front of a cluster are those of the cluster's own router, byte for byte."""

import random
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.laws.law_seeds import BASE_SEED
from tests.laws.test_cluster_laws import Disturbance
from tests.laws.wire_streams import note
from tests.mongod.cluster.spreading import spread
from tests.oracle.replay.real_streams import RealStreams, time_of
from tests.oracle.replay.stream_case import StreamCase
from tests.support.client_workload import COLLECTIONS, ClientWorkload
from tests.support.fronted import Fronted
from tests.support.streams import token_of

Document = dict[str, Any]
STEPS, OPERATIONS = 4, 15
SLOW_SEEDS = 20


@pytest.fixture(scope="module")
def cluster() -> Any:
    with ShardedCluster(shards=3) as found:
        yield found


def test_it_presents_a_router(cluster: ShardedCluster) -> None:
    with Fronted(cluster.uri) as front:
        client = front.client()
        hello = client.admin.command("hello")
        assert hello["msg"] == "isdbgrid"
        assert "setName" not in hello
        assert client.server_info()["version"] == cluster.client().server_info()["version"]
        assert client.admin.command("serverStatus")["source"]["away"] is False


def cases(databases: list[str], start: Timestamp) -> list[StreamCase]:
    expanded = {"showExpandedEvents": True, "startAtOperationTime": start}
    images = {"fullDocument": "updateLookup", "fullDocumentBeforeChange": "whenAvailable"}
    first = databases[0]
    return [
        StreamCase(None, None, expanded),
        StreamCase(None, None, {**expanded, **images}),
        StreamCase(None, None, {"startAtOperationTime": start}, [{"$match": {"operationType": "update"}}]),
        *(StreamCase(database, None, {**expanded, **images}) for database in databases),
        *(StreamCase(first, name, {**images, "startAtOperationTime": start}) for name in COLLECTIONS),
    ]


def compare(real: RealStreams, ours: RealStreams, case: StreamCase) -> list[bytes]:
    expected, found = real.read(case), ours.read(case)
    assert (found.events, found.error) == (expected.events, expected.error), case
    return expected.events


@pytest.mark.parametrize(
    "seed",
    [
        BASE_SEED,
        *(pytest.param(BASE_SEED + n, marks=pytest.mark.slow) for n in range(1, SLOW_SEEDS)),
    ],
)
def test_streams_are_those_of_the_router_while_ranges_move_and_shards_join(seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    with ShardedCluster(shards=3) as cluster, Fronted(cluster.uri) as front:
        client = cluster.client()
        workload = ClientWorkload(client, seed, "front")
        disturbance = Disturbance(cluster, seed, workload.databases)
        start = note(client)
        done = []
        for _ in range(STEPS):
            workload.run(OPERATIONS)
            done.append(disturbance.run_command())
        end = note(client)
        real, ours = RealStreams(client, end), RealStreams(front.client(), end)
        events = 0
        for case in cases(workload.databases, start):
            found = compare(real, ours, case)
            events += len(found)
            for place in rng.sample(range(len(found)), min(2, len(found))):
                compare(real, ours, case.starting(resumeAfter=token_of(found[place])))
        assert events > STEPS * OPERATIONS / 2, done


def test_open_streams_go_on_while_shards_join_and_leave() -> None:
    with ShardedCluster(shards=2) as cluster, Fronted(cluster.uri) as front:
        client = cluster.client()
        orders = client.shop.orders
        spread(cluster, orders, {"k": 1}, {"k": 100})
        number = 0

        def write(count: int) -> None:
            nonlocal number
            for _ in range(count):
                orders.insert_one({"_id": number, "k": number * 37 % 200})
                orders.update_one({"_id": number, "k": number * 37 % 200}, {"$set": {"a": 1}})
                number += 1

        start = note(client)
        with front.client().shop.orders.watch(full_document="updateLookup") as stream:
            write(5)
            client.admin.command("addShard", "third")
            client.admin.command("moveRange", "shop.orders", min={"k": 100}, toShard="third")
            write(5)
            client.admin.command("moveRange", "shop.orders", min={"k": 100}, toShard=cluster.shards[0])
            while client.admin.command("removeShard", "shard1")["state"] != "completed":
                pass
            write(5)
            seen = [next(stream)["_id"]["_data"] for _ in range(30)]
        end = note(client)
        case = StreamCase("shop", "orders", {"startAtOperationTime": start, "showExpandedEvents": True})
        # The router itself has lost what the shard had that has left; a new stream cannot start before.
        assert RealStreams(client, end).read(case).error == RealStreams(front.client(), end).read(case).error
        assert seen == sorted(seen)
        assert len(set(seen)) == 30
        late = case.starting(resumeAfter={"_data": seen[-8]})
        after = compare(RealStreams(client, end), RealStreams(front.client(), end), late)
        assert [token_of(event)["_data"] for event in after] == seen[-7:]


def test_an_idle_cluster_makes_nobody_wait(cluster: ShardedCluster) -> None:
    with Fronted(cluster.uri) as front:
        client = cluster.client()
        orders = client.idle.orders
        with front.client().idle.orders.watch() as stream:
            for number in range(5):
                orders.insert_one({"_id": number})
                assert next(stream)["documentKey"] == {"_id": number}


def test_a_history_of_a_cluster_answers_what_its_shards_have_forgotten(tmp_path: Any) -> None:
    with ShardedCluster(shards=2) as cluster:
        client: MongoClient[Document] = cluster.client()
        orders = client.shop.orders
        spread(cluster, orders, {"k": 1}, {"k": 100})
        start = note(client)
        for number in range(20):
            orders.insert_one({"_id": number, "k": number * 10})
        end = note(client)
        case = StreamCase("shop", None, {"startAtOperationTime": start})
        expected = RealStreams(client, end).read(case).events
        with (
            DeploymentSource(cluster.uri) as read,
            Fronted(cluster.uri, history=tmp_path / "history") as front,
        ):
            HistoryBuilder(read, tmp_path / "history").build()
            for shard in cluster.shards:
                cluster.truncate_oplog(shard)
            history = front.server.history
            assert history is not None
            front.call(history.look())
            assert RealStreams(client, end).read(case).error == 286
            found = RealStreams(front.client(), end).read(case)
            assert found.error is None
            assert found.events == expected
            assert len(found.events) == 20
            assert time_of(token_of(found.events[-1])) < end
