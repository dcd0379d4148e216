"""Snapshots of collections that were there before their history began."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace import as_of, read_history, record_snapshot
from tailrace.errors import HistoryError, UsageError
from tailrace.lake.commit import change_files
from tailrace.lake.past.base import FOLDER
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.base_recorder import BaseRecorder, RecordedRange
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster

Document = dict[str, Any]
IMAGES: Document = {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"}


@pytest.fixture
def source() -> Iterator[ReplicaSet]:
    """Its oplog begins after ten orders were inserted."""
    with ReplicaSet() as found:
        shop = found.client().shop
        shop.orders.insert_many([{"_id": number, "n": 0} for number in range(10)])
        shop.untouched.insert_one({"_id": "still"})
        shop.create_collection("seen", viewOn="orders")
        shop.create_collection("newest", capped=True, size=4096)  # has no snapshots
        found.truncate_oplog()
        yield found


def build(source: ReplicaSet, history: Path) -> HistoryTable:
    with DeploymentSource(source.uri) as read:
        HistoryBuilder(read, history).build()
    return HistoryTable.open(history)


def images(history: Path) -> list[tuple[int, Document | None, Document | None]]:
    events = read_history(history, "shop.orders", IMAGES, images="rebuilt")
    return [
        (event["documentKey"]["_id"], event["fullDocumentBeforeChange"], event.get("fullDocument"))
        for event in events
    ]


def test_documents_are_known_from_the_snapshot_on(source: ReplicaSet, tmp_path: Path) -> None:
    history, orders = tmp_path / "history", source.client().shop.orders
    orders.update_one({"_id": 1}, {"$set": {"n": 1}})
    early = source.cluster_time
    build(source, history)
    source.client().shop.later.insert_one({"_id": 1})
    build(source, history)
    with pytest.raises(HistoryError, match=r"record one with tailrace\.record_snapshot"):
        as_of(history, "shop.orders")
    recorded: list[RecordedRange] = []
    assert record_snapshot(source.uri, history, range_documents=4, progress=recorded.append) == 4
    shown = [(one.namespace, one.number, one.of) for one in recorded]
    assert sorted(shown) == [
        ("shop.orders", 1, 3), ("shop.orders", 2, 3), ("shop.orders", 3, 3), ("shop.untouched", 1, 1)
    ]  # fmt: skip
    assert sum(one.documents for one in recorded) == 11
    assert record_snapshot(source.uri, history) == 0  # not the collection whose creation the history has
    orders.update_one({"_id": 1}, {"$set": {"n": 2}})
    orders.delete_one({"_id": 2})
    middle = source.cluster_time
    orders.update_one({"_id": 3}, {"$set": {"n": 3}})
    build(source, history)
    assert images(history) == [
        (1, None, None),
        (1, {"_id": 1, "n": 1}, {"_id": 1, "n": 2}),
        (2, {"_id": 2, "n": 0}, None),
        (3, {"_id": 3, "n": 0}, {"_id": 3, "n": 3}),
    ]
    expected = {number: {"_id": number, "n": 0} for number in range(10) if number != 2}
    expected[1]["n"] = 2
    assert {order["_id"]: order for order in as_of(history, "shop.orders", middle)} == expected
    expected[3]["n"] = 3
    assert {order["_id"]: order for order in as_of(history, "shop.orders")} == expected
    assert [*as_of(history, "shop.untouched")] == [{"_id": "still"}]
    assert [*as_of(history, "shop.later")] == [{"_id": 1}]
    with pytest.raises(HistoryError, match=r"its snapshot is of .*: ask for a later time"):
        as_of(history, "shop.orders", early)


def test_a_snapshot_that_was_interrupted_is_continued(source: ReplicaSet, tmp_path: Path) -> None:
    history, orders = tmp_path / "history", source.client().shop.orders
    table = build(source, history)
    with DeploymentSource(source.uri) as read:
        recording = BaseRecorder(read.collections, table, range_documents=2).record()
        first = [next(recording) for _ in range(2)]
    orders.update_many({}, {"$set": {"n": 1}})
    rest: list[RecordedRange] = []
    record_snapshot(source.uri, history, range_documents=2, progress=rest.append)
    assert len(first) + len(rest) == 5 + 1
    assert {one.cluster_time for one in first}.isdisjoint(one.cluster_time for one in rest)
    orders.update_many({}, {"$set": {"n": 2}})
    build(source, history)
    shown = images(history)
    assert shown[10:] == [(n, {"_id": n, "n": 1}, {"_id": n, "n": 2}) for n in range(10)]
    assert {before["n"] for _, before, _ in shown[:10] if before is not None} <= {0}
    assert {order["n"] for order in as_of(history, "shop.orders")} == {2}


def test_a_snapshot_from_before_what_the_history_has_is_recorded_again(
    source: ReplicaSet, tmp_path: Path
) -> None:
    history, orders = tmp_path / "history", source.client().shop.orders
    build(source, history)
    assert record_snapshot(source.uri, history) == 2
    orders.update_one({"_id": 1}, {"$set": {"n": 1}})
    table = build(source, history)
    assert change_files(table, [], removed=list(table.files), begins=table.through)
    before = {file.name for file in table.store.list(FOLDER)}
    orders.update_one({"_id": 2}, {"$set": {"n": 1}})
    build(source, history)
    assert images(history) == [(2, None, None)]
    assert record_snapshot(source.uri, history) == 2
    assert not before & {file.name for file in table.store.list(FOLDER)}
    orders.update_one({"_id": 2}, {"$set": {"n": 2}})
    build(source, history)
    assert images(history)[1:] == [(2, {"_id": 2, "n": 1}, {"_id": 2, "n": 2})]
    assert len([*as_of(history, "shop.orders")]) == 10


def test_a_history_of_everything_needs_no_snapshot(tmp_path: Path) -> None:
    with ReplicaSet() as whole:
        whole.client().shop.orders.insert_one({"_id": 1})
        assert build(whole, tmp_path / "history").begins == 0
        assert record_snapshot(whole.uri, tmp_path / "history") == 0


def test_a_sharded_cluster_is_refused(tmp_path: Path) -> None:
    with ShardedCluster(shards=1) as cluster, DeploymentSource(cluster.uri) as read:
        cluster.client().shop.orders.insert_one({"_id": 1})
        HistoryBuilder(read, tmp_path / "history").build()
        with pytest.raises(UsageError, match="snapshots of a sharded cluster are not recorded"):
            record_snapshot(cluster.uri, tmp_path / "history")
