"""Served streams show images that the source did not store, if that is wanted."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import MinKey
from pymongo.errors import OperationFailure

from tailrace.error_codes import ErrorCode
from tailrace.errors import UsageError
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.laws.law_seeds import BASE_SEED
from tests.mongod.cluster.spreading import spread
from tests.support.fronted import Fronted
from tests.support.image_twins import (
    STORED,
    check_twins,
    check_twins_after_snapshot,
    compared,
    note,
    read,
)

Document = dict[str, Any]
OPERATIONS = 60
REQUIRED: Document = {"full_document": "required", "full_document_before_change": "required"}
AVAILABLE: Document = {"full_document": "whenAvailable", "full_document_before_change": "whenAvailable"}


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def images(stream: Any, count: int) -> list[tuple[str, Document | None, Document | None]]:
    events = [next(stream) for _ in range(count)]
    return [
        (event["operationType"], event.get("fullDocumentBeforeChange"), event.get("fullDocument"))
        for event in events
    ]


@pytest.fixture(scope="module")
def source() -> Iterator[ReplicaSet]:
    with ReplicaSet(server_version="6.0.27") as found:
        yield found


@pytest.fixture(scope="module")
def history(source: ReplicaSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history that begins after a document was inserted."""
    return tmp_path_factory.mktemp("history") / "history"


def build(source: ReplicaSet, history: Path) -> None:
    with DeploymentSource(source.uri) as read:
        HistoryBuilder(read, history).build()


@pytest.fixture(scope="module")
def front(source: ReplicaSet, history: Path) -> Iterator[Fronted]:
    build(source, history)
    with Fronted(source.uri, history=history, rebuilds_images=True) as found:
        yield found


@pytest.mark.parametrize(
    "seed", [BASE_SEED, *(pytest.param(BASE_SEED + n, marks=pytest.mark.slow) for n in range(1, 20))]
)
def test_streams_show_what_the_deployment_shows_with_stored_images(
    source: ReplicaSet, front: Fronted, seed: int
) -> None:
    check_twins(source.client(), front.client(), seed, OPERATIONS)


@pytest.mark.parametrize("by_front", [False, True])
@pytest.mark.parametrize(
    "seed", [BASE_SEED, *(pytest.param(BASE_SEED + n, marks=pytest.mark.slow) for n in range(1, 10))]
)
def test_documents_from_before_the_history_are_known_from_a_snapshot_on(
    source: ReplicaSet, tmp_path: Path, seed: int, by_front: bool
) -> None:
    check_twins_after_snapshot(
        source.client(), source.uri, tmp_path, seed + 1000 * by_front, OPERATIONS // 2, by_front=by_front
    )


def test_a_stream_far_back_has_images(tmp_path: Path) -> None:
    with ReplicaSet() as source:
        orders = source.client().shop.orders
        orders.insert_one({"_id": 1, "n": 0})
        start = note(source.client())
        for number in range(40):  # more than the diffs between two whole versions
            orders.update_one({"_id": 1}, {"$set": {"n": number + 1}})
        build(source, tmp_path / "history")
        source.truncate_oplog()
        with (
            Fronted(source.uri, history=tmp_path / "history", rebuilds_images=True) as front,
            front.client().shop.orders.watch(start_at_operation_time=start, **REQUIRED) as stream,
        ):
            expected = [("update", {"_id": 1, "n": n}, {"_id": 1, "n": n + 1}) for n in range(40)]
            assert images(stream, 40) == expected
            orders.delete_one({"_id": 1})
            assert images(stream, 1) == [("delete", {"_id": 1, "n": 40}, None)]
            shown = front.client().admin.command("serverStatus")["source"]["images"]
            assert shown["through"] > start
            assert shown["fault"] is None


def test_it_goes_on_after_a_restart_and_begins_again_if_the_file_is_damaged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    served: Any = {"history": tmp_path / "history", "rebuilds_images": True, "data": data}
    with ReplicaSet() as source:
        orders = source.client().shop.orders
        orders.insert_one({"_id": 1, "n": 0})
        build(source, tmp_path / "history")
        start = note(source.client())
        for number in range(3):
            with Fronted(source.uri, **served) as front:
                orders.update_one({"_id": 1}, {"$set": {"n": number + 1}})
                with front.client().shop.orders.watch(start_at_operation_time=start, **REQUIRED) as stream:
                    expected = [
                        ("update", {"_id": 1, "n": n}, {"_id": 1, "n": n + 1}) for n in range(number + 1)
                    ]
                    assert images(stream, number + 1) == expected
            if number:
                (data / "images.sqlite").write_bytes(b"no database" * 1000)


def test_changes_that_were_lost_make_documents_unknown(tmp_path: Path) -> None:
    with (
        ReplicaSet() as source,
        Fronted(source.uri, history=tmp_path / "history", rebuilds_images=True) as front,
    ):
        orders = source.client().shop.orders
        orders.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
        with front.client().shop.orders.watch(**REQUIRED) as stream:
            orders.update_one({"_id": 1}, {"$set": {"n": 1}})
            assert images(stream, 1) == [("update", {"_id": 1, "n": 0}, {"_id": 1, "n": 1})]
        away = {"failCommands": ["find", "getMore"], "errorCode": 11601, "appName": "tailrace"}
        with source.fail_point(data=away):
            wait_until(lambda: any("away" in line["msg"] for line in front.log()))
            orders.update_one({"_id": 1}, {"$set": {"n": 2}})
            orders.update_one({"_id": 1}, {"$set": {"n": 3}})
            source.truncate_oplog()
        wait_until(lambda: any("begin again" in line["msg"] for line in front.log()))
        with front.client().shop.orders.watch(**AVAILABLE) as stream:
            orders.update_one({"_id": 1}, {"$set": {"n": 4}})
            orders.replace_one({"_id": 1}, {"n": 5})
            orders.update_one({"_id": 1}, {"$set": {"n": 6}})
            assert images(stream, 3) == [
                ("update", None, None),
                ("replace", None, {"_id": 1, "n": 5}),
                ("update", {"_id": 1, "n": 5}, {"_id": 1, "n": 6}),
            ]


def test_documents_that_move_between_shards(tmp_path: Path) -> None:
    with ShardedCluster(shards=2) as cluster:
        client = cluster.client()
        client.stored.create_collection("orders", **STORED)
        twins = [client.plain.orders, client.stored.orders]
        for orders in twins:
            spread(cluster, orders, {"k": 1}, {"k": 100})
        with DeploymentSource(cluster.uri) as read_oplogs:
            HistoryBuilder(read_oplogs, tmp_path / "history").build()
        start = note(client)
        for orders in twins:
            orders.insert_many([{"_id": 1, "k": 1, "n": 0}, {"_id": 2, "k": 150, "n": 10}])
            for step, place in enumerate((1, 0, 1)):
                orders.update_one({"_id": 1, "k": 1}, {"$inc": {"n": 1}})
                orders.update_one({"_id": 2, "k": 150}, {"$inc": {"n": 1}})
                orders.update_one({"_id": 1, "k": 1}, {"$set": {f"step{step}": True}})
                orders.delete_one({"_id": 2, "k": 150})
                admin = orders.database.client.admin
                admin.command(
                    "moveRange", orders.full_name, min={"k": MinKey()}, toShard=cluster.shards[place]
                )
                orders.insert_one({"_id": 2, "k": 150, "n": place})
            orders.delete_one({"_id": 1, "k": 1})
        end = note(client)
        with Fronted(cluster.uri, history=tmp_path / "history", rebuilds_images=True) as front:
            expected = read(client, "stored", start, end)
            ours = read(front.client(), "plain", start, end)
            assert (ours.error, expected.error) == (None, None)
            assert compared(ours.events) == compared(expected.events)
            assert len(ours.events) == 2 + 3 * 5 + 1


def test_without_the_option_streams_are_those_of_the_deployment(source: ReplicaSet) -> None:
    orders = source.client().default.orders
    orders.insert_one({"_id": 1})
    with Fronted(source.uri) as front, front.client().default.orders.watch(**REQUIRED) as stream:
        orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        with pytest.raises(OperationFailure) as failure:
            next(stream)
        assert failure.value.code == ErrorCode.NoMatchingDocument


def test_images_need_a_history(source: ReplicaSet) -> None:
    with pytest.raises(UsageError, match="images are rebuilt from a history; name its folder with --history"):
        Fronted(source.uri, rebuilds_images=True).start()
