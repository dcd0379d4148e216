"""Images rebuilt from a history are the documents as they were, byte for byte."""

from pathlib import Path

import pytest

from tailrace.lake.past.fold import identity_of
from tailrace.lake.past.rebuilt_images import VersionsOfHistory
from tailrace.lake.past.versions import DocumentVersions
from tailrace.lake.table import HistoryTable
from tailrace.testing.replica_set import ReplicaSet
from tests.lake.stored import canonical_events, fill, new_table, read_back
from tests.laws.law_seeds import BASE_SEED
from tests.support.choices import is_users
from tests.support.history import History, identity
from tests.support.seeds import check_histories

_LATER = BASE_SEED + 6


@pytest.mark.parametrize(
    "seeds",
    [range(BASE_SEED, BASE_SEED + 6), pytest.param(range(_LATER, _LATER + 300), marks=pytest.mark.slow)],
)
def test_random_histories(seeds: range, tmp_path: Path) -> None:
    check_histories(seeds, lambda history: images_are_the_documents(history, tmp_path / str(history.seed)))


def images_are_the_documents(history: History, folder: Path) -> None:
    events = canonical_events(history)
    for event in events:
        event.pre_image = None
    fill(new_table(folder), events, pieces=3)
    truth = {
        (change.timestamp, change.position, change.key): change.before
        for change in history.changes
        if change.is_write and is_users(change.namespace)
    }
    versions = VersionsOfHistory(HistoryTable.open(folder), DocumentVersions())
    changed = [event for event in events if event.operation_type in ("update", "replace", "delete")]
    rebuilt = dict(zip(changed, versions.rebuild(changed, events[-1].entry.ts), strict=True))
    checked = 0
    for event in changed:
        key = (event.entry.ts, event.entry.txn_op_index, identity(event.document_key or b""))
        if key not in truth or event.entry.extras.from_migrate:
            continue
        checked += 1
        assert rebuilt[event] == truth[key], event
    assert checked or not changed


def test_what_only_removed_events_need_expires(tmp_path: Path) -> None:
    with ReplicaSet(history=tmp_path / "history", builds_history=True) as built:
        shop = built.client().shop
        orders = shop.orders
        shop.dropped.insert_one({"_id": 1})
        shop.dropped.update_one({"_id": 1}, {"$set": {"n": 1}})
        shop.dropped.drop()
        shop.target.insert_one({"_id": 1})
        shop.target.update_one({"_id": 1}, {"$set": {"n": 1}})
        shop.other.insert_one({"_id": 1})
        shop.other.rename("target", dropTarget=True)
        orders.insert_many([{"_id": number, "n": 0} for number in range(300)])
        for _ in range(4):
            orders.update_many({}, {"$inc": {"n": 1}})
        orders.delete_many({"_id": {"$gte": 10}})
        orders.update_many({}, {"$inc": {"n": 1}})
        built.catch_up()
    table = HistoryTable.open(tmp_path / "history")
    versions = DocumentVersions(tmp_path / "images.sqlite")
    history = VersionsOfHistory(table, versions)
    updates = [event for event in read_back([*table.read(0)]) if event.operation_type == "update"]
    before = history.rebuild(updates, table.through)
    assert None not in before
    row: int | None = 0
    while row is not None:
        row = versions.expire(updates[-10].entry.ts, row)
    assert history.rebuild(updates[-10:], table.through) == before[-10:]
    kept = {identity_of(event) for event in updates[-10:]}
    of_deleted = [event for event in updates if identity_of(event) not in kept]
    assert history.rebuild(of_deleted, table.through) == [None] * len(of_deleted)
    versions.close()


def test_versions_that_were_made_from_something_else_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "images.sqlite"
    for about, found in (("one history", 0), ("one history", 7), ("another", 0)):
        versions = DocumentVersions(path, about=about)
        assert versions.through == found
        versions.apply([], 7)
        versions.close()
