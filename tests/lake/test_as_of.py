"""A collection rebuilt from a history is the collection as it was, byte for byte."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bson import Timestamp, encode

from tailrace import HistoryError, ReplicaSet, as_of
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.lake.table import HistoryTable
from tailrace.namespaces import NamespaceChoice
from tests.lake.stored import canonical_events, fill, new_table
from tests.laws.law_seeds import BASE_SEED
from tests.support.choices import is_users
from tests.support.history import History, identity
from tests.support.seeds import check_histories

_LATER = BASE_SEED + 6


@pytest.mark.parametrize(
    "seeds",
    [range(BASE_SEED, BASE_SEED + 15), pytest.param(range(_LATER, _LATER + 500), marks=pytest.mark.slow)],
)
def test_random_histories(seeds: range, tmp_path: Path) -> None:
    check_histories(seeds, lambda history: collections_as_they_were(history, tmp_path / str(history.seed)))


def collections_as_they_were(history: History, folder: Path) -> None:
    fill(new_table(folder), canonical_events(history), pieces=3)
    rng = random.Random(history.seed)
    last = HistoryTable.open(folder).through
    names = {change.namespace for change in history.changes if is_users(change.namespace)}
    for time in (last, *rng.sample(history.timestamps, 3)):
        if time > last:
            continue
        expected = history.documents_at(time)
        for name in sorted(names):
            found = {identity(raw): raw for raw in as_of(folder, name, to_timestamp(time)).raw()}
            assert found == expected.get(name, {}), (name, to_timestamp(time))


@pytest.fixture
def built(tmp_path: Path) -> ReplicaSet:
    return ReplicaSet(history=tmp_path / "history", builds_history=True)


def test_a_replica_set(built: ReplicaSet, tmp_path: Path) -> None:
    history = tmp_path / "history"
    with built:
        orders = built.client().shop.orders
        with orders.watch() as stream:
            orders.insert_many([{"_id": number, "n": 0} for number in range(5)])
            orders.update_one({"_id": 1}, {"$set": {"n": 1}})
            events = [next(stream) for _ in range(6)]
        orders.delete_one({"_id": 0})
        before = built.cluster_time
        orders.rename("old")
        orders.insert_one({"_id": "new"})
        built.catch_up()
        truth = [dict(found) for found in built.client().shop.old.find()]

    assert [*as_of(history, "shop.old")] == truth
    assert [*as_of(history, "shop.orders")] == [{"_id": "new"}]
    assert [*as_of(history, "shop.orders", before)] == truth
    assert [*as_of(history, "shop.old", before)] == []
    assert [*as_of(history, "shop.orders", events[2]["_id"])] == [{"_id": n, "n": 0} for n in range(3)]
    assert len([*as_of(history, "shop.orders", events[5]["_id"]["_data"])]) == 5
    parts = [raw for number in range(3) for raw in as_of(history, "shop.old").share(number, 3)]
    assert sorted(parts) == sorted(encode(found) for found in truth)
    frame = as_of(history, "shop.old").to_polars()
    assert frame.sort("_id").to_dicts() == [{"_id": 1, "n": 1}, *({"_id": n, "n": 0} for n in (2, 3, 4))]
    with pytest.raises(HistoryError, match=r"goes up to cluster time .* is after that"):
        as_of(history, "shop.orders", datetime(2100, 1, 1, tzinfo=UTC))


def test_a_collection_that_is_older_than_the_history_is_refused(built: ReplicaSet, tmp_path: Path) -> None:
    with ReplicaSet(data=tmp_path / "data") as replica_set:
        replica_set.client().shop.orders.insert_one({"_id": 1})
        replica_set.truncate_oplog()
    with ReplicaSet(data=tmp_path / "data", history=tmp_path / "history", builds_history=True) as replica_set:
        replica_set.client().shop.orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        replica_set.client().shop.items.insert_one({"_id": 1})
        replica_set.client().shop.dropped.insert_one({"_id": 1})
        replica_set.client().shop.dropped.drop()
        replica_set.catch_up()
    assert [*as_of(tmp_path / "history", "shop.items")] == [{"_id": 1}]
    assert [*as_of(tmp_path / "history", "shop.dropped")] == []
    with pytest.raises(HistoryError, match=r"has no change of shop\.unchanged: what was there before is not"):
        as_of(tmp_path / "history", "shop.unchanged")
    with pytest.raises(HistoryError, match=r"shop\.orders was there before: its documents cannot be rebuilt"):
        as_of(tmp_path / "history", "shop.orders")
    with pytest.raises(HistoryError, match=r"begins with .* is before that; ask for a later time"):
        as_of(tmp_path / "history", "shop.items", Timestamp(1, 1))


def test_a_collection_that_is_not_kept_is_refused(tmp_path: Path) -> None:
    kept = NamespaceChoice.of(["shop.orders"])
    with ReplicaSet(history=tmp_path, builds_history=True, kept=kept) as replica_set:
        replica_set.client().shop.orders.insert_one({"_id": 1})
        replica_set.client().shop.items.insert_one({"_id": 1})
        replica_set.catch_up()
    assert [*as_of(tmp_path, "shop.orders")] == [{"_id": 1}]
    with pytest.raises(CommandError, match=r"collection shop\.items are kept here"):
        as_of(tmp_path, "shop.items")
