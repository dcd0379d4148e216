"""Clusters are started, stopped and started again, with free and used ports and folders."""

import socket
from pathlib import Path

import pytest

from tailrace.errors import UsageError
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster


def free_ports(count: int) -> int:
    """The first of several consecutive free ports."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first: int = probe.getsockname()[1]
        try:
            for port in range(first, first + count):
                with socket.socket() as each:
                    each.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            continue
        return first


def test_shards_listen_elsewhere_if_a_port_is_in_use() -> None:
    first = free_ports(5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        taken.listen()
        with ShardedCluster(shards=2, port=first) as cluster:
            client = cluster.client()
            assert client.address == ("127.0.0.1", first)
            hosts = [shard["host"] for shard in client.admin.command("listShards")["shards"]]
            assert f"shard0/127.0.0.1:{first + 2}" not in hosts
            client.shop.orders.insert_one({"_id": 1})
            assert any(line["msg"] == "A shard listens on another port" for line in cluster.log())


def test_a_restarted_cluster_has_its_shards_and_its_data(tmp_path: Path) -> None:
    with ShardedCluster(shards=2, data=tmp_path) as cluster:
        client = cluster.client()
        client.admin.command("shardCollection", "shop.orders", key={"_id": "hashed"})
        client.shop.orders.insert_many([{"_id": number} for number in range(20)])
        client.admin.command("addShard", "third")
        identity = client.config.version.find_one()
    with ShardedCluster(shards=5, data=tmp_path) as cluster:
        client = cluster.client()
        assert cluster.shards == ["shard0", "shard1", "third"]
        assert client.config.version.find_one() == identity
        assert client.shop.orders.count_documents({}) == 20


def test_data_of_a_replica_set_and_of_a_cluster_are_not_confused(
    tmp_path: Path,
) -> None:
    with ReplicaSet(data=tmp_path / "set"):
        pass
    with ShardedCluster(data=tmp_path / "cluster"):
        pass
    with pytest.raises(UsageError, match="holds a replica set"):
        ShardedCluster(data=tmp_path / "set").start()
    with pytest.raises(UsageError, match="holds a cluster"):
        ReplicaSet(data=tmp_path / "cluster").start()


@pytest.mark.parametrize(("shards", "routers"), [(101, 1), (1, 0), (1, 51)])
def test_a_cluster_needs_shards_and_routers(shards: int, routers: int) -> None:
    with pytest.raises(UsageError, match="a cluster has 1 to"):
        ShardedCluster(shards=shards, routers=routers).start()
