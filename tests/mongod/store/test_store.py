"""A data directory: restarts, snapshots, and the size of the oplog."""

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bson import DatetimeMS

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.entry_bytes import Operation
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.ddl.drop import drop
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.indexes.index_keys import index_keys
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.tables import pack_time
from tailrace.mongod.store.validation import Validation
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened

Document = dict[str, Any]


def made(store: Store, *specs: Document, name: str = "c", **options: Any) -> Collection:
    def work(unit: WriteUnit) -> Collection:
        collection = unit.create_collection("shop", name, options)
        for spec in specs:
            collection = unit.add_index(collection, {"v": 2, **spec})
        return collection

    return store.write_now(work)


def insert(store: Store, collection: Collection, *found: Document) -> None:
    def work(unit: WriteUnit) -> None:
        for document in found:
            unit.insert(collection, documents.encode(document))

    store.write_now(work)


def all_of(store: Store, collection: Collection, **how: Any) -> list[Document]:
    with store.snapshot() as snapshot:
        return [documents.decode(raw) for _, raw in snapshot.records(collection, **how)]


def entries(store: Store) -> list[Document]:
    with store.snapshot() as snapshot:
        return [documents.decode(raw) for _, raw in snapshot.entries()]


# -- documents -------------------------------------------------------------------------------------------


def test_natural_order_is_the_order_of_insertion(store: Store) -> None:
    collection = made(store)
    insert(store, collection, {"_id": "b"}, {"_id": "a"})
    insert(store, collection, {"_id": "c"})
    assert [document["_id"] for document in all_of(store, collection)] == ["b", "a", "c"]
    assert [document["_id"] for document in all_of(store, collection, reverse=True)] == ["c", "a", "b"]
    with store.snapshot() as snapshot:
        keys = [key for key, _ in snapshot.records(collection)]
    assert [d["_id"] for d in all_of(store, collection, after=keys[0])] == ["a", "c"]
    assert [d["_id"] for d in all_of(store, collection, after=keys[2], reverse=True)] == ["a", "b"]


def test_clustered_collections_are_ordered_by_id(store: Store) -> None:
    collection = made(store, clusteredIndex={"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True})
    insert(store, collection, {"_id": 5}, {"_id": "x"}, {"_id": 1}, {"_id": DatetimeMS(0)})
    assert [d["_id"] for d in all_of(store, collection)] == [1, 5, "x", DatetimeMS(0)]


def test_collections_are_separate(store: Store) -> None:
    first, second = made(store, name="a"), made(store, name="b")
    insert(store, first, {"_id": 1})
    insert(store, second, {"_id": 1}, {"_id": 2})
    assert len(all_of(store, first)) == 1
    assert len(all_of(store, second)) == 2
    with store.snapshot() as snapshot:
        assert snapshot.count(first)[0] == 1
        assert snapshot.count(second)[0] == 2
        assert snapshot.count(second)[1] == sum(len(raw) for _, raw in snapshot.records(second))


def test_a_snapshot_does_not_change(store: Store) -> None:
    collection = made(store)
    insert(store, collection, {"_id": 1})
    with store.snapshot() as before:
        insert(store, collection, {"_id": 2})
        made(store, name="later")
        assert [documents.decode(raw)["_id"] for _, raw in before.records(collection)] == [1]
        assert before.catalog.collection("shop.later") is None
        with store.snapshot() as after:
            assert after.count(collection)[0] == 2
            assert after.catalog.collection("shop.later") is not None


@pytest.mark.parametrize("seed", range(4))
def test_ranges_of_an_index(store: Store, seed: int) -> None:
    """A range has exactly the documents whose keys are in it, in both directions."""
    rng = random.Random(seed)
    collection = made(store, {"key": {"a": 1}, "name": "a_1"})
    index = collection.index("a_1")
    assert index is not None
    found = [
        {"_id": n, "a": rng.choice((rng.randrange(20), str(rng.randrange(20)), None))} for n in range(80)
    ]
    insert(store, collection, *found)
    keyed = sorted((index_keys(index, documents.encode(d))[0], d["_id"]) for d in found)
    lower, upper = sorted(rng.choice(keyed)[0][:-1] for _ in range(2))
    expected = [n for key, n in keyed if key >= lower and (key < upper or key.startswith(upper))]
    with store.snapshot() as snapshot:
        for reverse in (False, True):
            records = snapshot.index_records(collection, index, lower, upper, reverse=reverse)
            ids = [documents.decode(raw)["_id"] for _, raw in records]
            assert ids == (expected[::-1] if reverse else expected), seed


# -- restarts ----------------------------------------------------------------------------------------------


def test_all_data_survives_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        collection = made(store, {"key": {"a": -1}, "name": "a_-1", "unique": True}, validator={"a": 1})
        insert(store, collection, {"_id": 1, "a": 1}, {"_id": 2, "a": 2})
        before, set_id = entries(store), store.set_id
    with opened(tmp_path) as store:
        found = store.catalog.collection("shop.c")
        assert found is not None
        assert (found.uuid, dict(found.options)) == (collection.uuid, {"validator": {"a": 1}})
        assert [dict(index.spec) for index in found.indexes] == [dict(i.spec) for i in collection.indexes]
        assert all_of(store, found) == [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]
        assert entries(store)[: len(before)] == before
        assert store.set_id == set_id
        assert store.last_committed > (before[-1]["ts"].time << 32 | before[-1]["ts"].inc)
        insert(store, found, {"_id": 0, "a": 3})
        assert [document["_id"] for document in all_of(store, found)] == [1, 2, 0]
        with pytest.raises(CommandError) as failure:
            insert(store, found, {"_id": 9, "a": 2})
        assert failure.value.code == 11000


def test_record_keys_go_on_after_a_restart(tmp_path: Path) -> None:
    def add(store: Store, collection: Collection, number: int) -> bytes:
        return store.write_now(lambda unit: unit.insert(collection, documents.encode({"_id": number})))

    with opened(tmp_path) as store:
        collection = made(store)
        assert [add(store, collection, n) for n in (1, 2)] == [pack_time(1), pack_time(2)]
    with opened(tmp_path) as store:
        assert [add(store, collection, n) for n in (3, 4)] == [pack_time(3), pack_time(4)]


def test_idents_are_never_reused(tmp_path: Path) -> None:
    """Records of a dropped collection never appear in another one."""
    with opened(tmp_path) as store:
        first = made(store)
        insert(store, first, {"_id": 1})
        store.write_now(lambda unit: drop(unit, "shop", "c"))
    with opened(tmp_path) as store:
        second = made(store)
        idents = {second.ident, *(index.ident for index in second.indexes)}
        assert idents.isdisjoint({first.ident, *(index.ident for index in first.indexes)})
        assert all_of(store, second) == []


def test_cluster_time_never_decreases(tmp_path: Path) -> None:
    clock = WallClock()
    with opened(tmp_path, wall=clock) as store:
        clock.advance(1000)
        last = store.write_now(lambda unit: unit.clock.tick())
        made(store)
    clock.advance(-5000)
    with opened(tmp_path, wall=clock) as store:
        assert store.last_committed > last
        times = [(entry["ts"].time, entry["ts"].inc) for entry in entries(store)]
        assert times == sorted(set(times))


def test_a_directory_of_another_format_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.write_now(lambda unit: unit.put_meta("format", pack_time(99)))
    with pytest.raises(UsageError, match="format 99"):
        Store.open(tmp_path)


def test_a_directory_with_an_index_of_another_collation_version(tmp_path: Path) -> None:
    collation = {"locale": "en", "version": "1.0"}
    with opened(tmp_path) as store:
        made(store, {"key": {"x": 1}, "name": "x_1", "collation": collation})
    with pytest.raises(UsageError, match=r"x_1 of shop\.c has a collation of version 1\.0"):
        Store.open(tmp_path)


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot open the data directory"):
        Store.open(tmp_path / "file")


# -- sizes -------------------------------------------------------------------------------------------------


def test_a_full_oplog_loses_its_oldest_entries(tmp_path: Path) -> None:
    with opened(tmp_path, oplog_size=20_000) as store:
        collection = made(store)
        for number in range(200):
            insert(store, collection, {"_id": number, "text": "x" * 300})
        found = entries(store)
        size = sum(len(documents.encode(entry)) for entry in found)
        assert 15_000 < size <= 21_000
        assert found[-1]["o"]["_id"] == 199
        assert store.oldest == found[0]["ts"].time << 32 | found[0]["ts"].inc
        assert len(all_of(store, collection)) == 200
        first = store.oldest
    with opened(tmp_path, oplog_size=20_000) as store:
        assert store.oldest >= first


def test_a_full_oplog_loses_a_transaction_as_a_whole(tmp_path: Path) -> None:
    with opened(tmp_path, oplog_size=20_000, held_through=0) as store:
        collection = made(store)

        def log_transaction(unit: WriteUnit) -> None:
            for rest in ({"partialTxn": True}, {"partialTxn": True}, {"partialTxn": True}, {}):
                operations = {"applyOps": [{"op": "n", "ns": "", "o": {"text": "x" * 8000}}], **rest}
                unit.log(Operation("c", "admin.$cmd", documents.encode(operations)))

        store.write_now(log_transaction)
        insert(store, collection, {"_id": 1})
        assert sum("applyOps" in entry["o"] for entry in entries(store)) == 4
        store.held_through = store.clock.now + 1
        insert(store, collection, {"_id": 2})
        insert(store, collection, {"_id": 3})
        assert [entry["o"] for entry in entries(store)] == [{"_id": 1}, {"_id": 2}, {"_id": 3}]


def test_the_space_of_dropped_documents_is_reused(store: Store) -> None:
    collection = made(store, {"key": {"a": 1}, "name": "a_1"})
    insert(store, collection, *({"_id": n, "a": n} for n in range(7000)))
    store.write_now(lambda unit: drop(unit, "shop", "c"))
    with store.snapshot() as snapshot:
        before = snapshot._transaction.stat(store.tables.records)["entries"]
    for _ in range(20):
        store.write_now(lambda unit: unit.put_meta("x", b""))
    with store.snapshot() as snapshot:
        stat = snapshot._transaction.stat
        assert stat(store.tables.records)["entries"] == 0 < before
        assert stat(store.tables.index)["entries"] == 0
        assert stat(store.tables.garbage)["entries"] == 0
    assert not store.has_garbage


def test_a_full_disk_fails_writes_only(tmp_path: Path) -> None:
    with opened(tmp_path, map_size=1 << 20) as store:
        collection = made(store)

        def fill() -> None:
            for number in range(1000):
                insert(store, collection, {"_id": number, "text": "x" * 10_000})

        with pytest.raises(CommandError) as failure:
            fill()
        assert failure.value.code == 14031
        kept = all_of(store, collection)
        assert len(kept) > 10
        with store.snapshot() as snapshot:
            assert snapshot.count(collection)[0] == len(kept)
            found = snapshot.find_id(collection, id_key_of(documents.encode({"_id": 0})) or b"")
            assert found is not None


@contextmanager
def no_larger_files(size: int) -> Iterator[None]:
    """Let the system refuse files above a size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_failed_commit_has_no_effect(tmp_path: Path) -> None:
    with opened(tmp_path) as opened_store:
        made(opened_store)

        def make_and_fill(unit: WriteUnit) -> None:
            collection = unit.create_collection("shop", "large")
            unit.insert(collection, documents.encode({"_id": 1, "text": "x" * 1_000_000}))
            opened_store.begin_term(unit)

        size = (tmp_path / "data.mdb").stat().st_size
        with no_larger_files(size), pytest.raises(CommandError) as caught:
            opened_store.write_now(make_and_fill)
        assert caught.value.code == ErrorCode.OutOfDiskSpace
        seen = opened_store.write_now(lambda unit: [c.ns for c in unit.catalog.collections("shop")])
        assert seen == ["shop.c"]
        made(opened_store, name="after")
        assert [c.ns for c in opened_store.catalog.collections("shop")] == ["shop.after", "shop.c"]
        assert opened_store.term == 1
    with opened(tmp_path) as opened_store:
        assert [c.ns for c in opened_store.catalog.collections("shop")] == ["shop.after", "shop.c"]
        assert opened_store.term == 2


def test_blocks_at_the_end_of_a_collection_have_full_size(store: Store) -> None:
    collection = made(store)
    insert(store, collection, *({"_id": number, "text": "x" * 1000} for number in range(40)))
    insert(store, made(store, name="other"), *({"_id": number, "text": "x" * 1000} for number in range(40)))
    with store.snapshot() as snapshot:
        block = snapshot.block(collection, None, None, count=60, size=60_000)
    assert len(block.documents) == 40
    assert block.is_last


def test_validation_reports_a_record_without_id(store: Store) -> None:
    collection = store.write_now(lambda unit: unit.create_collection("shop", "c"))

    def damage(unit: WriteUnit) -> None:
        key = unit.insert(collection, documents.encode({"_id": 1}))
        unit.end_group()
        record = collection.prefix + key
        unit.state.transaction.put(record, documents.encode({"a": 1}), db=unit.state.tables.records)

    store.write_now(damage)
    with store.snapshot() as snapshot:
        validation = Validation(snapshot, collection)
        for _ in validation.steps():
            pass
        assert not validation.valid
        assert validation.broken_indexes == {"_id_"}
        assert [(entry["indexName"], entry["key"]) for entry in validation.missing_entries] == [("_id_", "")]
