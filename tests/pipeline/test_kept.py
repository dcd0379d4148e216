"""A history of chosen namespaces has their events and no others, and can keep more later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pymongo.errors import OperationFailure

from tailrace.errors import CommandError, UsageError
from tailrace.events.interval import Interval
from tailrace.lake.commit import commit
from tailrace.lake.table import HistoryTable
from tailrace.namespaces import NamespaceChoice
from tailrace.pipeline.history.build import build
from tailrace.pipeline.history.checkpoint import open_table
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.pipeline.options.event_options import read_options
from tailrace.pipeline.stream_batches import StreamBatches
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet

ORDERS = NamespaceChoice.of(["shop.order*"], ["shop.orders_old"])
MORE = NamespaceChoice.of(["shop.order*", "shop.items", "/^crm[.]/"])


@pytest.fixture
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet() as found:
        yield found


def write(replica_set: ReplicaSet, number: int) -> None:
    """A change in every collection, by itself and in one transaction, and a rename."""
    client = replica_set.client()
    for name in ("orders", "orders_old", "items"):
        client.shop[name].insert_one({"_id": number})
    client.crm.people.insert_one({"_id": number})
    with client.start_session() as session, session.start_transaction():
        client.shop.items.update_one({"_id": number}, {"$set": {"n": 1}}, session=session)
        client.shop.orders.update_one({"_id": number}, {"$set": {"n": 1}}, session=session)
    client.shop.coming.insert_one({"_id": number})
    client.shop.coming.rename(f"orders_{number}")
    client.shop.items.rename(f"items_{number}")


def build_history(replica_set: ReplicaSet, folder: Path, **settings: Any) -> HistoryTable:
    """One batch of a pipeline, without Spark."""
    with DeploymentSource(replica_set.uri) as source:
        table = open_table(source, PipelineSettings(folder, **settings))
        interval = Interval(table.through, source.promised())
        built = build(source, interval, folder, table.kept.now)
        commit(table, built.files, after=interval.after, through=interval.through, newest=built.newest)
    return table


def stored(table: HistoryTable) -> list[tuple[str, str, str]]:
    return [
        (row["db"], row["coll"], row["operation"])
        for batch in table.read(0, columns=("db", "coll", "operation"))
        for row in batch.to_pylist()
    ]


def shown(folder: Path, **options: str) -> int:
    """The rows of a batch query, planned as on Spark."""
    batches = StreamBatches(read_options({"history": str(folder), "output": "event", **options}))
    return sum(len(rows) for piece in batches.whole() for rows in batches.rows(piece))


def test_only_the_events_of_what_is_kept_are_stored(replica_set: ReplicaSet, tmp_path: Path) -> None:
    write(replica_set, 1)
    table = build_history(replica_set, tmp_path, kept=ORDERS)
    assert stored(table) == [
        ("shop", "orders", "create"),
        ("shop", "orders", "insert"),
        ("shop", "orders", "update"),
        ("shop", "coming", "rename"),  # to a name that is kept
    ]
    encoded = [pq.read_table(tmp_path / file.path, read_dictionary=["coll"]) for file in table.files]
    names = {name for rows in encoded for part in rows["coll"].chunks for name in part.dictionary.to_pylist()}
    assert names == {"orders", "coming"}


def test_everything_is_the_default(replica_set: ReplicaSet, tmp_path: Path) -> None:
    write(replica_set, 1)
    assert {name for _, name, _ in stored(build_history(replica_set, tmp_path))} >= {"orders_old", "people"}


def test_a_history_keeps_more_from_now_on(replica_set: ReplicaSet, tmp_path: Path) -> None:
    write(replica_set, 1)
    before = build_history(replica_set, tmp_path, kept=ORDERS)
    through = before.through
    write(replica_set, 2)
    table = build_history(replica_set, tmp_path, kept=MORE)
    kept = [name for _, name, _ in stored(table)]
    assert kept.count("people") == 1  # not the first, and not its creation
    assert kept.count("orders_old") == 1
    assert table.kept.now == MORE
    assert table.kept.since(lambda choice: choice.keeps("shop", "orders")) == table.begins
    assert table.kept.since(lambda choice: choice.keeps("crm", "people")) == through
    assert HistoryTable.open(tmp_path).kept == table.kept  # it is part of the table


def test_a_history_gets_what_the_oplog_still_has(replica_set: ReplicaSet, tmp_path: Path) -> None:
    write(replica_set, 1)
    build_history(replica_set, tmp_path / "history", kept=ORDERS)
    write(replica_set, 2)
    table = build_history(replica_set, tmp_path / "history", kept=MORE, backfill=True)
    other = build_history(replica_set, tmp_path / "other", kept=MORE)
    assert stored(table) == stored(other)
    assert table.kept.since(lambda choice: choice.keeps("crm", "people")) == table.begins
    assert shown(tmp_path / "history", ns="crm.people") == 2


def test_what_the_oplog_has_forgotten_stays_as_it_was(replica_set: ReplicaSet, tmp_path: Path) -> None:
    write(replica_set, 1)
    build_history(replica_set, tmp_path, kept=ORDERS)
    write(replica_set, 2)
    middle = build_history(replica_set, tmp_path).through
    replica_set.truncate_oplog()
    write(replica_set, 3)
    table = build_history(replica_set, tmp_path, kept=MORE, backfill=True)
    assert [name for _, name, _ in stored(table)].count("people") == 1
    # The oplog has the newest entry of that time.
    assert table.kept.since(lambda choice: choice.keeps("crm", "people")) == middle - 1
    assert [name for _, name, operation in stored(table) if operation == "insert"].count("orders") == 3


def test_less_is_refused(replica_set: ReplicaSet, tmp_path: Path) -> None:
    build_history(replica_set, tmp_path, kept=MORE)
    for less in (ORDERS, NamespaceChoice.of(["shop.orders"]), NamespaceChoice.of((), ["shop.items"])):
        with pytest.raises(UsageError, match=r"keeps shop\.order\*, shop\.items, .* and cannot keep "):
            build_history(replica_set, tmp_path, kept=less)
    with pytest.raises(UsageError, match="--backfill is for a history that keeps more"):
        build_history(replica_set, tmp_path, kept=MORE, backfill=True)


def test_queries_on_what_is_not_kept_fail(replica_set: ReplicaSet, tmp_path: Path) -> None:
    write(replica_set, 1)
    build_history(replica_set, tmp_path, kept=ORDERS)
    assert shown(tmp_path, ns="shop.orders") == 2
    assert shown(tmp_path, ns="shop.order*", exclude="shop.orders_old") == 2
    assert shown(tmp_path, ns="shop.orders,shop.orders_1") == 2
    for wrong in ({"ns": "shop.items"}, {"ns": "shop"}, {}, {"ns": "shop.order*"}, {"ns": "/order/"}):
        with pytest.raises(CommandError, match=r"are kept here, but those of shop\.order\*") as failure:
            shown(tmp_path, **wrong)
        assert failure.value.code == 115
    write(replica_set, 2)
    build_history(replica_set, tmp_path, kept=MORE)
    with pytest.raises(
        CommandError, match=r"collection shop\.items are kept since cluster time .* begin it later"
    ) as late:
        shown(tmp_path, ns="shop.items")
    assert late.value.code == 286


def test_patterns_choose_what_a_query_shows(replica_set: ReplicaSet, tmp_path: Path) -> None:
    write(replica_set, 1)
    build_history(replica_set, tmp_path)
    assert shown(tmp_path, ns="crm") == 1
    assert shown(tmp_path, ns="shop.orders,crm.people") == 3
    assert shown(tmp_path, ns="/people$|old$/") == 2
    assert shown(tmp_path, ns="shop.*", exclude="shop.item*,shop.coming") == 3
    assert shown(tmp_path, exclude="shop") == 1
    with pytest.raises(UsageError, match=r"with and without a dot: shop\.orders,crm; a whole database is db"):
        shown(tmp_path, ns="shop.orders,crm")
    with pytest.raises(UsageError, match="is not a regular expression"):
        shown(tmp_path, ns="/(/")


@pytest.mark.parametrize("has_head", [True, False])
def test_served_streams_on_what_is_not_kept_fail(tmp_path: Path, has_head: bool) -> None:
    with ReplicaSet(history=tmp_path, builds_history=True, kept=ORDERS, head=has_head) as served:
        client = served.client()
        with client.shop.orders.watch(max_await_time_ms=10) as stream:
            write(served, 1)
            served.catch_up()
            assert next(stream)["operationType"] == "insert"
            token = stream.resume_token
        served.truncate_oplog()
        with client.shop.orders.watch(resume_after=token, max_await_time_ms=10) as stream:
            assert next(stream)["operationType"] == "update"
        for watched in (client.shop.items, client.shop, client):
            with pytest.raises(OperationFailure, match=r"not all changes of .* are kept here") as failure:
                watched.watch()
            assert failure.value.code == 115
