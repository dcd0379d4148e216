"""What the check of a collection finds: each fault of records, index entries and counters."""

from collections.abc import Callable
from typing import Any

import pytest

from tailrace.bson import documents
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.validation import Validation
from tailrace.mongod.store.write_unit import WriteUnit

CLUSTERED: dict[str, Any] = {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}}
A = {"v": 2, "key": {"a": 1}, "name": "a_1"}
Damage = Callable[[WriteUnit, Collection], None]


def made(store: Store, number: int = 3, **options: Any) -> Collection:
    def work(unit: WriteUnit) -> Collection:
        collection = unit.add_index(unit.create_collection("shop", "c", options), A)
        for n in range(number):
            unit.insert(collection, documents.encode({"_id": n, "a": [n, n + 10]}))
        return collection

    return store.write_now(work)


def checked(store: Store, collection: Collection, damage: Damage | None = None) -> Validation:
    def work(unit: WriteUnit) -> None:
        if damage is not None:
            damage(unit, collection)
            unit.state.changes += 1

    store.write_now(work)
    with store.snapshot() as snapshot:
        validation = Validation(snapshot, collection)
        for _ in validation.steps():
            pass
        return validation


def records(unit: WriteUnit, collection: Collection) -> list[bytes]:
    return [collection.prefix + key for key, _ in unit.records(collection)]


def put(unit: WriteUnit, key: bytes, document: bytes) -> None:
    unit.state.transaction.put(key, document, db=unit.state.tables.records)


def index_keys(unit: WriteUnit, collection: Collection) -> list[tuple[bytes, bytes]]:
    index = collection.indexes[1]
    return [(index.prefix + place, key) for place, key in unit.index_entries(collection, index, b"", b"\xff")]


def test_a_sound_collection(store: Store) -> None:
    found = checked(store, made(store))
    assert found.valid
    assert (found.records, found.invalid_documents, found.corrupt_records) == (3, 0, [])
    assert found.keys_per_index == {"_id_": 3, "a_1": 6}
    assert found.broken_indexes == set()
    assert (found.missing_entries, found.extra_entries) == ([], [])


@pytest.mark.parametrize("options", [{}, CLUSTERED])
def test_a_record_that_is_not_sound(store: Store, options: dict[str, Any]) -> None:
    collection = made(store, **options)

    def damage(unit: WriteUnit, collection: Collection) -> None:
        key = records(unit, collection)[1]
        put(unit, key, documents.encode({"_id": 1, "a": True}).replace(b"a\0\x01", b"a\0\x05"))

    found = checked(store, collection, damage)
    assert not found.valid
    assert found.records == 3
    assert found.invalid_documents == 1
    assert len(found.corrupt_records) == 1
    assert any("is not sound" in error for error in found.errors)


def test_a_record_that_is_elsewhere_than_its_id(store: Store) -> None:
    collection = made(store, **CLUSTERED)

    def damage(unit: WriteUnit, collection: Collection) -> None:
        put(unit, records(unit, collection)[1], documents.encode({"_id": 7, "a": [1, 11]}))

    found = checked(store, collection, damage)
    assert [error.partition(" is not ")[2] for error in found.errors] == ["where its _id belongs"]
    assert not found.broken_indexes


def test_a_record_without_an_id(store: Store) -> None:
    collection = made(store, 1)
    found = checked(
        store, collection, lambda unit, c: put(unit, records(unit, c)[0], documents.encode({"a": [0, 10]}))
    )
    assert "_id_" in found.broken_indexes
    assert "a_1" not in found.broken_indexes
    assert [entry["indexName"] for entry in found.missing_entries] == ["_id_"]


def test_a_missing_index_entry(store: Store) -> None:
    def damage(unit: WriteUnit, collection: Collection) -> None:
        unit.state.transaction.delete(index_keys(unit, collection)[1][0], db=unit.state.tables.index)

    found = checked(store, made(store), damage)
    assert found.broken_indexes == {"a_1"}
    (missing,) = found.missing_entries
    assert (missing["indexName"], missing["_id"]) == ("a_1", 1)
    assert found.extra_entries == []
    assert found.keys_per_index["a_1"] == 5
    assert len(found.errors) == 2  # the entry, and the number of entries


def test_an_entry_of_a_record_that_is_not_there(store: Store) -> None:
    def damage(unit: WriteUnit, collection: Collection) -> None:
        last, _ = index_keys(unit, collection)[-1]
        unit.state.transaction.put(last + b"x", b"nowhere", db=unit.state.tables.index)

    found = checked(store, made(store), damage)
    assert found.broken_indexes == {"a_1"}
    assert found.missing_entries == []
    (extra,) = found.extra_entries
    assert (extra["indexName"], extra["_id"]) == ("a_1", None)
    assert found.keys_per_index["a_1"] == 7


def test_an_entry_with_another_key_than_its_document(store: Store) -> None:
    def damage(unit: WriteUnit, collection: Collection) -> None:
        last, key = index_keys(unit, collection)[-1]
        unit.state.transaction.put(last + b"x", key, db=unit.state.tables.index)

    found = checked(store, made(store), damage)
    assert found.broken_indexes == {"a_1"}
    (extra,) = found.extra_entries
    assert (extra["indexName"], extra["_id"]) == ("a_1", 2)


def test_entries_that_lead_to_other_records(store: Store) -> None:
    def damage(unit: WriteUnit, collection: Collection) -> None:
        (first, one), (second, other) = index_keys(unit, collection)[:2]
        unit.state.transaction.put(first, other, db=unit.state.tables.index)
        unit.state.transaction.put(second, one, db=unit.state.tables.index)

    found = checked(store, made(store), damage)
    assert found.broken_indexes == {"a_1"}
    assert sorted(entry["_id"] for entry in found.missing_entries) == [0, 1]
    assert sorted(entry["_id"] for entry in found.extra_entries) == [0, 1]


def test_wrong_counters(store: Store) -> None:
    def more(unit: WriteUnit, collection: Collection) -> None:
        unit.add_to_count(collection.ident, 1, 0)

    def larger(unit: WriteUnit, collection: Collection) -> None:
        unit.add_to_count(collection.ident, -1, 5)

    collection = made(store)
    found = checked(store, collection, more)
    assert len(found.errors) == 1
    assert "counts 4 documents, but has 3" in found.errors[0]
    found = checked(store, collection, larger)
    assert len(found.errors) == 1
    assert "bytes, but has" in found.errors[0]


def test_a_hundred_faults_are_shown(store: Store) -> None:
    def damage(unit: WriteUnit, collection: Collection) -> None:
        for key in records(unit, collection)[:102]:
            put(unit, key, documents.encode({"_id": 1, "a": True}).replace(b"a\0\x01", b"a\0\x05"))
        for key in records(unit, collection)[102:]:
            put(unit, key, documents.encode({"_id": 999, "a": -1}))

    found = checked(store, made(store, 210), damage)
    assert found.invalid_documents == 102
    assert len(found.corrupt_records) == 100
    assert len(found.errors) == 100
    assert len(found.missing_entries) == 100
    assert len(found.extra_entries) == 100
