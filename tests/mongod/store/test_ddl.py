"""Changes of the catalog in the store: after a restart, with open transactions, and after a failure."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tailrace.bson import documents
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.ddl.coll_mod import CollectionChanges, coll_mod
from tailrace.mongod.store.ddl.coll_mod_index import IndexChange
from tailrace.mongod.store.ddl.create import create_collection
from tailrace.mongod.store.ddl.create_and_drop_indexes import create_indexes, drop_indexes
from tailrace.mongod.store.ddl.drop import drop, drop_database
from tailrace.mongod.store.ddl.rename import convert_to_capped, rename_collection
from tailrace.mongod.store.ddl.views import create_view, drop_view
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.transaction import TransactionUnit
from tailrace.mongod.store.validation import Validation
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened

Document = dict[str, Any]
A_INDEX: Document = {"key": {"a": 1}, "name": "a_1"}


def found(store: Store, ns: str) -> Collection:
    collection = store.catalog.collection(ns)
    assert collection is not None
    return collection


def fill(store: Store, ns: str, *items: Document) -> None:
    collection = found(store, ns)

    def work(unit: WriteUnit) -> None:
        for document in items:
            unit.insert(collection, documents.encode(document))

    store.write_now(work)


def contents(store: Store, ns: str) -> list[Document]:
    with store.snapshot() as snapshot:
        collection = snapshot.catalog.collection(ns)
        assert collection is not None
        validation = Validation(snapshot, collection)
        for _ in validation.steps():
            pass
        assert validation.errors == []
        return [documents.decode(raw) for _, raw in snapshot.records(collection)]


def logged(store: Store) -> int:
    with store.snapshot() as snapshot:
        return sum(1 for _ in snapshot.entries())


def test_all_changes_survive_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.write_now(lambda unit: create_collection(unit, "shop", "a", {"capped": True, "size": 5000}))
        store.write_now(lambda unit: create_collection(unit, "shop", "b", {}))
        fill(store, "shop.b", {"_id": 1, "a": 1}, {"_id": 2, "a": 2})
        store.write_now(lambda unit: create_indexes(unit, "shop", "b", [A_INDEX]))
        store.write_now(lambda unit: create_view(unit, "shop", "v", "b", [{"$limit": 1}]))
        store.write_now(lambda unit: create_view(unit, "shop", "w", "b", []))
        store.write_now(lambda unit: drop_view(unit, "shop", "w"))
        store.write_now(lambda unit: rename_collection(unit, ("shop", "b"), ("zoo", "c")))
        changes = CollectionChanges(
            index=IndexChange(name="a_1", hidden=True), options={"validator": {"a": 1}}
        )
        store.write_now(lambda unit: coll_mod(unit, "zoo", "c", changes))
        uuid = found(store, "zoo.c").uuid
    with opened(tmp_path) as store:
        kept = found(store, "zoo.c")
        assert kept.uuid == uuid
        assert dict(kept.options) == {
            "validator": {"a": 1}, "validationLevel": "strict", "validationAction": "error",
        }  # fmt: skip
        assert [dict(index.spec) for index in kept.indexes][1] == {"v": 2, **A_INDEX, "hidden": True}
        assert contents(store, "zoo.c") == [{"_id": 1, "a": 1}, {"_id": 2, "a": 2}]
        assert [view.ns for view in store.catalog.views()] == ["shop.v"]
        assert found(store, "shop.a").is_capped
        assert store.catalog.collection("shop.b") is None


def test_a_cycle_through_what_another_view_joins_is_refused(store: Store) -> None:
    joins: list[Document] = [
        {"$lookup": {"from": "b", "localField": "x", "foreignField": "x", "as": "y"}},
        {"$unionWith": "b"},
        {
            "$graphLookup": {
                "from": "b",
                "startWith": "$x",
                "connectFromField": "x",
                "connectToField": "x",
                "as": "y",
            }
        },
    ]
    for position, join in enumerate(joins):
        database = f"db{position}"
        for name, view_on, pipeline, code in (
            ("a", "c", [join], None),
            ("b", "a", [], 5),
            ("b", "c", [{"$unionWith": "a"}], 5),
            ("b", "c", [], None),
            ("d", "a", [], None),
        ):
            failure = store.write_now(
                partial(create_view, database=database, name=name, view_on=view_on, pipeline=pipeline)
            )
            assert (failure and failure.code) == code
        assert [view.name for view in store.catalog.views(database)] == ["a", "b", "d"]


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (lambda unit: create_collection(unit, "shop", "c", {"capped": True, "size": 9}), 48),
        (lambda unit: create_indexes(unit, "shop", "c", [A_INDEX, {"key": {"b": 0}, "name": "b"}]), 67),
        (lambda unit: create_indexes(unit, "shop", "new", [{"key": {}, "name": "x"}]), 67),
        (lambda unit: drop_indexes(unit, "shop", "c", ["a_1", "nosuch"]), 27),
        (lambda unit: rename_collection(unit, ("shop", "c"), ("zoo", "taken")), 48),
        (lambda unit: convert_to_capped(unit, "shop", "c", 0), 2),
        (lambda unit: coll_mod(unit, "shop", "c", CollectionChanges(capped_size=5)), 72),
        (lambda unit: drop_database(unit, "local"), 20),
    ],
)
def test_a_failed_change_has_no_effect(store: Store, work: Callable[[WriteUnit], Any], code: int) -> None:
    store.write_now(lambda unit: create_collection(unit, "shop", "c", {}))
    store.write_now(lambda unit: create_collection(unit, "zoo", "taken", {}))
    fill(store, "shop.c", {"_id": 1, "a": 1})
    store.write_now(lambda unit: create_indexes(unit, "shop", "c", [A_INDEX]))
    before = (logged(store), [c.to_bson() for c in store.catalog.collections()])
    with pytest.raises(CommandError) as failure:
        store.write_now(work)
    assert failure.value.code == code
    assert (logged(store), [c.to_bson() for c in store.catalog.collections()]) == before
    assert contents(store, "shop.c") == [{"_id": 1, "a": 1}]


def test_a_failed_build_leaves_no_keys(store: Store) -> None:
    store.write_now(lambda unit: create_collection(unit, "shop", "c", {}))
    fill(store, "shop.c", *({"_id": n, "a": n // 2} for n in range(100)))
    specs = [{"key": {"_id": 1, "a": 1}, "name": "down"}, {**A_INDEX, "unique": True}]
    outcome = store.write_now(lambda unit: create_indexes(unit, "shop", "c", specs))
    assert outcome.failure is not None
    assert outcome.failure.code == 11000
    store.write_now(lambda unit: unit.put_meta("x", b""))
    with store.snapshot() as snapshot:
        assert snapshot._transaction.stat(store.tables.index)["entries"] == 100
    assert len(contents(store, "shop.c")) == 100


@pytest.mark.parametrize(
    "work",
    [
        lambda unit: drop(unit, "shop", "c"),
        lambda unit: drop_database(unit, "shop"),
        lambda unit: create_indexes(unit, "shop", "c", [A_INDEX]),
        lambda unit: drop_indexes(unit, "shop", "c", "*"),
        lambda unit: coll_mod(unit, "shop", "c", CollectionChanges(options={"validator": {"a": 1}})),
        lambda unit: rename_collection(unit, ("shop", "c"), ("shop", "d")),
        lambda unit: rename_collection(unit, ("shop", "other"), ("shop", "c"), drop_target=True),
        lambda unit: convert_to_capped(unit, "shop", "c", 1000),
    ],
)
def test_changes_wait_for_open_transactions(store: Store, work: Callable[[WriteUnit], Any]) -> None:
    """A collection does not change until the transactions that have written to it have ended."""

    async def main() -> list[str]:
        store.attach(asyncio.get_running_loop())
        await store.write(lambda unit: create_collection(unit, "shop", "c", {}))
        await store.write(lambda unit: create_collection(unit, "shop", "other", {}))
        collection = found(store, "shop.c")
        transaction = TransactionUnit(store)
        document = documents.encode({"_id": 1})
        await transaction.write(lambda unit: unit.insert(collection, document))
        order: list[str] = []

        async def change() -> None:
            await store.write(work)
            order.append("change")

        task = asyncio.ensure_future(change())
        # After this job the writer has tried the change, which now waits.
        await store.write(lambda unit: unit.count(collection))
        await asyncio.sleep(0)
        order.append("commit")
        transaction.abort()
        await task
        return order

    assert asyncio.run(main()) == ["commit", "change"]


def test_a_drop_removes_all_data_of_a_collection(store: Store) -> None:
    store.write_now(lambda unit: create_collection(unit, "shop", "c", {}))
    store.write_now(lambda unit: create_indexes(unit, "shop", "c", [A_INDEX]))
    fill(store, "shop.c", *({"_id": n, "a": [n, -n]} for n in range(50)))
    store.write_now(lambda unit: drop(unit, "shop", "c"))
    store.write_now(lambda unit: unit.put_meta("x", b""))
    with store.snapshot() as snapshot:
        stat = snapshot._transaction.stat
        assert stat(store.tables.records)["entries"] == 0
        assert stat(store.tables.index)["entries"] == 0
        facts = [key for key, _ in snapshot._transaction.cursor(db=store.tables.meta)]
        assert not [key for key in facts if key.startswith(b"multikey.")]


def test_a_rename_keeps_counts_and_keys(store: Store) -> None:
    store.write_now(lambda unit: create_collection(unit, "shop", "c", {}))
    fill(store, "shop.c", *({"_id": n} for n in range(10)))
    store.write_now(lambda unit: rename_collection(unit, ("shop", "c"), ("shop", "d")))
    fill(store, "shop.d", {"_id": 10})
    assert [document["_id"] for document in contents(store, "shop.d")] == list(range(11))
