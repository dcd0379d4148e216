"""Law Once on a cluster without a shared disk: workers, drivers and the store's connection are killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient

from tailrace.lake.table import HistoryTable
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.pipeline_runs import events_of, holds, newest_time, streamed, wait_until
from tests.spark.standalone_cluster import (
    StandaloneCluster,
    finish,
    kill_driver,
    standalone_cluster,
    start_driver,
)
from tests.support.object_store import ObjectStoreServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def cluster(java: None, tmp_path: Path) -> Iterator[StandaloneCluster]:
    folder = tmp_path / "hidden"
    folder.mkdir()
    with standalone_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def place(objects: ObjectStoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "hidden" / "cache"))
    return objects.url(uuid4().hex)


def write(client: "MongoClient[dict[str, Any]]", first: int, count: int = 300) -> None:
    orders = client.shop.orders
    for number in range(first, first + count):
        orders.insert_one({"_id": number, "text": "x" * 50})
        if number % 3 == 0:
            orders.update_one({"_id": number}, {"$set": {"qty": number}})
    with client.start_session() as session, session.start_transaction():
        orders.insert_many([{"_id": f"t{first}.{number}"} for number in range(20)], session=session)


def rows_of(place: str | Path, through: int) -> list[dict[str, Any]]:
    return [row for batch in HistoryTable.open(place).read(0, through) for row in batch.to_pylist()]


def test_two_workers_without_a_shared_folder_build_the_history_of_a_local_one(
    cluster: StandaloneCluster, objects: ObjectStoreServer, place: str, tmp_path: Path
) -> None:
    with ReplicaSet() as rs:
        client = rs.client()
        write(client, 0)
        output = finish(start_driver(cluster, rs.uri, place, objects.environment()))
        assert "done" in output
        table = HistoryTable.open(place)
        # Several tasks have built files, and one has merged them.
        assert len([file for file in table.store.list() if file.name.endswith(".parquet")]) > 2
        assert [file.path.partition("-")[0] for file in table.files] == ["merged"]
        local = tmp_path / "local"
        HistoryBuilder(rs.server.store, local).build(table.through)
        assert rows_of(place, table.through) == rows_of(local, table.through)
        # Two drivers at once: an interval is committed by one of them.
        write(client, 1000)
        drivers = [
            start_driver(
                cluster, rs.uri, place, {**objects.environment(), "XDG_CACHE_HOME": str(tmp_path / n)}, "half"
            )
            for n in "ab"
        ]
        outputs = []
        for driver in drivers:
            outputs.append(driver.communicate(timeout=300)[0])
            kill_driver(driver)
        ended = [driver.returncode for driver in drivers]
        assert 0 in ended, outputs
        assert all("done" in output or "disagree" in output for output in outputs), outputs
        end = newest_time(client)
        finish(start_driver(cluster, rs.uri, place, objects.environment()))
        assert events_of(place) == streamed(client, end)


def test_nothing_is_lost_or_doubled_by_kills(
    cluster: StandaloneCluster, objects: ObjectStoreServer, place: str
) -> None:
    with ReplicaSet() as rs:
        client = rs.client()
        write(client, 0)
        driver = start_driver(cluster, rs.uri, place, objects.environment(), "follow")
        try:
            wait_until(lambda: HistoryTable.exists(place))
            assert holds(place, newest_time(client))
            # The store executes requests and loses the answers, then refuses everything for a while.
            objects.fail("lost", "PUT", "/", 3)
            write(client, 1000)
            assert holds(place, newest_time(client))
            objects.fail("refused", "PUT", "/", 40)
            write(client, 2000)
            assert holds(place, newest_time(client))
            cluster.kill_worker(0)
            write(client, 3000)
            assert holds(place, newest_time(client))
            write(client, 4000, count=60)
        finally:
            kill_driver(driver)
        write(client, 5000, count=60)
        end = newest_time(client)
        finish(start_driver(cluster, rs.uri, place, objects.environment(), "half"))
        assert events_of(place) == streamed(client, end)
