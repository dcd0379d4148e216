"""Malformed commands on a router: each gets a reply, and never an internal error.

The mutations are those of `mongod/server/test_command_fuzz.py`; the collection is on both shards.
"""

from collections.abc import Iterator

import pytest

from tailrace.mongod.cluster.commands import COMMANDS
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.spreading import raw_client
from tests.mongod.server.broken_commands import check_answers
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document
from tests.mongod.server.sample_commands import ADMIN, SAMPLES

ROUNDS = 25
OWN: list[Document] = [
    {"balancerCollectionStatus": "fuzz.c"},
    {"balancerStart": 1},
    {"balancerStatus": 1},
    {"balancerStop": 1},
    {"checkMetadataConsistency": 1, "checkIndexes": True, "cursor": {"batchSize": 5}},
    {"enableSharding": "fuzz", "primaryShard": "shard0"},
    {"flushRouterConfig": "fuzz.c"},
    {"getShardMap": 1},
    {"getShardVersion": "fuzz.c"},
    {"isdbgrid": 1},
    {"killOp": 1, "op": "shard0:123456789"},
    {"listShards": 1, "filter": {"_id": "shard0"}},
    {"mergeAllChunksOnShard": "fuzz.c", "shard": "shard0"},
    {"mergeChunks": "fuzz.r", "bounds": [{"k": 0}, {"k": 10}]},
    {"moveChunk": "fuzz.r", "find": {"k": 1}, "to": "shard1"},
    {"moveCollection": "fuzz.f", "toShard": "shard1"},
    {"movePrimary": "fuzz", "to": "shard0"},
    {"moveRange": "fuzz.r", "min": {"k": 0}, "max": {"k": 10}, "toShard": "shard1"},
    {"refineCollectionShardKey": "fuzz.r", "key": {"k": 1, "_id": 1}},
    {"addShardToZone": "shard0", "zone": "z"},
    {"removeShardFromZone": "shard0", "zone": "z"},
    {"updateZoneKeyRange": "fuzz.r", "min": {"_id": 0}, "max": {"_id": 9}, "zone": "z"},
    {"reshardCollection": "fuzz.r", "key": {"_id": 1}, "numInitialChunks": 2},
    {"shardCollection": "fuzz.new", "key": {"a": 1, "b": "hashed"}, "unique": False, "numInitialChunks": 4},
    {"split": "fuzz.r", "middle": {"k": 7}},
    {"unshardCollection": "fuzz.r", "toShard": "shard0"},
    {"update": "r", "updates": [{"q": {"k": 3}, "u": {"$set": {"k": -3}}}], "lsid": {}, "txnNumber": 1},
]
ALL = [sample for sample in [*SAMPLES, *OWN] if next(iter(sample)) in COMMANDS]
ADMINS = ADMIN | {name for name, command in COMMANDS.items() if command.admin_only}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2) as cluster:
        admin = cluster.client().admin
        admin.command("enableSharding", "fuzz", primaryShard="shard0")
        admin.command("shardCollection", "fuzz.c", key={"_id": "hashed"})
        admin.command("shardCollection", "fuzz.r", key={"k": 1})
        yield cluster


@pytest.fixture
def raw(cluster: ShardedCluster) -> Iterator[RawClient]:
    with raw_client(cluster) as raw:
        yield raw


def test_there_is_a_sample_of_every_command() -> None:
    sampled = {next(iter(sample)) for sample in ALL}
    never = {"addShard", "dropDatabase", "logout", "removeShard", "shutdown", "waitForFailPoint"}
    assert {command.name for command in COMMANDS.values()} - sampled <= never


@pytest.mark.parametrize("number", range(len(ALL)), ids=lambda n: f"{next(iter(ALL[n]))}-{n}")
def test_a_malformed_command_gets_a_reply(raw: RawClient, number: int) -> None:
    documents = [{"_id": n, "a": n, "b": [n], "k": n - 25} for n in range(20, 30)]
    for name in ("c", "r", "f"):
        raw.call({"insert": name, "documents": documents, "ordered": False, "$db": "fuzz"})
    check_answers(raw, ALL, number, admin=ADMINS, rounds=ROUNDS, max_time_ms=300)


def test_no_internal_error_was_logged(cluster: ShardedCluster) -> None:
    assert not [line for line in cluster.log() if line["s"] == "E"]
