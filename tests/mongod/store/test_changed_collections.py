"""`collMod`, `renameCollection` and `convertToCapped`: codes, replies, entries and the catalog afterwards."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from typing import Any

import pytest
from bson import Int64

from tailrace.bson import documents
from tailrace.errors import CommandError
from tailrace.mongod.store.capped import insert_capped
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.coll_mod import CollectionChanges, coll_mod
from tailrace.mongod.store.ddl.coll_mod_index import IndexChange
from tailrace.mongod.store.ddl.create import create_collection
from tailrace.mongod.store.ddl.create_and_drop_indexes import create_indexes
from tailrace.mongod.store.ddl.rename import convert_to_capped, rename_collection
from tailrace.mongod.store.ddl.views import create_view
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened

Document = dict[str, Any]
CLUSTERED: Document = {"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "by_id"}}
CAPPED: Document = {"capped": True, "size": 4096}
SERIES: Document = {"timeseries": {"timeField": "t", "metaField": "m"}}
VALIDATED: Document = {"validationLevel": "strict", "validationAction": "error"}
_names = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened(tmp_path_factory.mktemp("changed")) as store:
        yield store


def made(store: Store, *indexes: Document, items: tuple[Document, ...] = (), **options: Any) -> str:
    """The name of a new collection of `shop`."""
    name = f"c{next(_names)}"

    def work(unit: WriteUnit) -> None:
        collection = create_collection(unit, "shop", name, options)
        if indexes:
            create_indexes(unit, "shop", name, indexes)
            collection = unit.catalog.collection(f"shop.{name}") or collection
        for item in items:
            unit.insert(collection, documents.encode(item))

    store.write_now(work)
    return name


def found(store: Store, name: str, database: str = "shop") -> Collection:
    collection = store.catalog.collection(f"{database}.{name}")
    assert collection is not None
    return collection


def contents(store: Store, name: str, database: str = "shop") -> list[Any]:
    with store.snapshot() as snapshot:
        records = snapshot.records(found(store, name, database))
        return [documents.decode(raw)["_id"] for _, raw in records]


def changed(store: Store, work: Callable[[WriteUnit], Any]) -> tuple[Any, list[Document]]:
    """What a job returns, and the entries it logs."""
    before = store.last_committed
    result = store.write_now(work)
    with store.snapshot() as snapshot:
        return result, [documents.decode(raw) for _, raw in snapshot.entries(before)]


def refused(store: Store, work: Callable[[WriteUnit], Any]) -> int:
    with pytest.raises(CommandError) as caught:
        store.write_now(work)
    return caught.value.code


def modify(collection: str, /, **changes: Any) -> Callable[[WriteUnit], Any]:
    return partial(coll_mod, database="shop", name=collection, changes=CollectionChanges(**changes))


def on_index(collection: str, /, *, dry_run: bool = False, **change: Any) -> Callable[[WriteUnit], Any]:
    return modify(collection, index=IndexChange(**change), dry_run=dry_run)


# -- collMod of indexes ----------------------------------------------------------------------------------


A: Document = {"key": {"a": 1}, "name": "a_1"}
B: Document = {"key": {"a": 1, "b": 1}, "name": "ab"}
UNIQUE: Document = {**A, "unique": True}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"hidden": True}, 72),
        ({"name": "a_1", "key_pattern": {"a": 1}, "hidden": True}, 72),
        ({"name": "a_1"}, 72),
        ({"name": "nope", "hidden": True}, 27),
        ({"key_pattern": {"nope": 1}, "hidden": True}, 27),
        ({"key_pattern": {"b": 1, "a": 1}, "hidden": True}, 27),
        ({"key_pattern": {"two": 1}, "hidden": True}, 181),
        ({"name": "_id_", "hidden": True}, 2),
        ({"name": "_id_", "hidden": False}, 2),
        ({"name": "_id_", "expire_after_seconds": 5}, 72),
        ({"name": "ab", "expire_after_seconds": 5}, 72),
        ({"name": "a_1", "expire_after_seconds": -1}, 72),
        ({"name": "a_1", "unique": False}, 2),
        ({"name": "a_1", "unique": True}, 72),
    ],
)
def test_changes_of_indexes_that_are_refused(store: Store, change: Document, code: int) -> None:
    twins: list[Document] = [
        {"key": {"two": 1}, "name": "t"},
        {"key": {"two": 1}, "name": "u", "sparse": True},
    ]
    name = made(store, A, B, *twins)
    assert refused(store, on_index(name, **change)) == code


@pytest.mark.parametrize(
    ("spec", "change", "reply", "logged", "before", "after"),
    [
        (
            A,
            {"hidden": True},
            {"hidden_old": False, "hidden_new": True},
            {"hidden": True},
            {"hidden": False},
            {"v": 2, **A, "hidden": True},
        ),
        (
            {**A, "hidden": True},
            {"hidden": False},
            {"hidden_old": True, "hidden_new": False},
            {"hidden": False},
            {"hidden": True},
            {"v": 2, **A},
        ),
        (
            A,
            {"prepare_unique": True},
            {"prepareUnique_old": False, "prepareUnique_new": True},
            {"prepareUnique": True},
            {"prepareUnique": False},
            {"v": 2, **A, "prepareUnique": True},
        ),
        (
            A,
            {"expire_after_seconds": 7},
            {"expireAfterSeconds_new": 7},
            {"expireAfterSeconds": 7},
            {},
            {"v": 2, **A, "expireAfterSeconds": 7},
        ),
        (
            {**A, "expireAfterSeconds": 5.5},
            {"expire_after_seconds": 2**40, "hidden": True},
            {
                "expireAfterSeconds_old": 5,
                "expireAfterSeconds_new": 2**31 - 1,
                "hidden_old": False,
                "hidden_new": True,
            },
            {"expireAfterSeconds": 2**31 - 1, "hidden": True},
            {"expireAfterSeconds": 5, "hidden": False},
            {"v": 2, **A, "expireAfterSeconds": 2**31 - 1, "hidden": True},
        ),
        (
            {**A, "expireAfterSeconds": 0},
            {"expire_after_seconds": 0},
            {"expireAfterSeconds_old": 0, "expireAfterSeconds_new": 0},
            {"expireAfterSeconds": 0},
            {"expireAfterSeconds": 0},
            {"v": 2, **A, "expireAfterSeconds": 0},
        ),
        (
            {**A, "prepareUnique": True},
            {"unique": True},
            {"unique_new": True},
            {"unique": True},
            {},
            {"v": 2, **A, "unique": True},
        ),
    ],
)
def test_a_changed_index(
    store: Store,
    spec: Document,
    change: Document,
    reply: Document,
    logged: Document,
    before: Document,
    after: Document,
) -> None:
    for how in ({"name": "a_1"}, {"key_pattern": {"a": 1}}):
        name = made(
            store, spec, {"key": {"z": 1}, "name": "z"}, items=({"_id": 1, "a": 1}, {"_id": 2, "a": 2})
        )
        found_reply, (entry,) = changed(store, on_index(name, **how, **change))
        assert found_reply == reply
        assert entry["o"] == {"collMod": name, "index": {"name": "a_1", **logged}}
        assert entry["o2"]["indexOptions_old"] == before
        assert list(entry["o2"]) == ["collectionOptions_old", "indexOptions_old"]
        collection = found(store, name)
        index, other = collection.indexes[1:]
        assert dict(index.spec) == after
        assert other.name == "z"
        with store.snapshot() as snapshot:
            assert len(list(snapshot.index_entries(collection, index, b"", b"\xff"))) == 2


@pytest.mark.parametrize(
    ("spec", "change"),
    [
        (A, {"hidden": False}),
        ({**A, "hidden": True}, {"hidden": True}),
        (A, {"prepare_unique": False}),
        (UNIQUE, {"unique": True}),
    ],
)
def test_a_value_that_an_index_has_already_is_no_change(
    store: Store, spec: Document, change: Document
) -> None:
    name = made(store, spec)
    before = found(store, name).indexes
    reply, (entry,) = changed(store, on_index(name, name="a_1", **change))
    assert reply == {}
    assert entry["o"] == {"collMod": name}
    assert list(entry["o2"]) == ["collectionOptions_old"]
    assert found(store, name).indexes == before


def test_an_index_with_duplicates_cannot_become_unique(store: Store) -> None:
    items = tuple({"_id": n, "a": n % 2} for n in range(5))
    name = made(store, A, items=items)
    store.write_now(on_index(name, name="a_1", prepare_unique=True))
    for dry_run in (True, False):
        with pytest.raises(CommandError) as caught:
            store.write_now(on_index(name, name="a_1", unique=True, dry_run=dry_run))
        assert caught.value.code == 359
        assert caught.value.details == {"violations": [{"ids": [0, 2, 4]}, {"ids": [1, 3]}]}

    def remove(unit: WriteUnit) -> None:
        for key, raw in list(unit.records(found(store, name)))[2:]:
            unit.delete(found(store, name), key, raw)

    store.write_now(remove)
    assert changed(store, on_index(name, name="a_1", unique=True, dry_run=True)) == ({}, [])
    assert not found(store, name).indexes[1].unique
    store.write_now(on_index(name, name="a_1", unique=True))
    assert found(store, name).indexes[1].unique
    assert (
        refused(store, lambda unit: unit.insert(found(store, name), documents.encode({"_id": 9, "a": 0})))
        == 11000
    )


def test_a_dry_run_is_for_indexes_that_become_unique(store: Store) -> None:
    name = made(store, A)
    assert refused(store, on_index(name, name="a_1", hidden=True, dry_run=True)) == 72
    assert refused(store, modify(name, dry_run=True)) == 72


def test_a_clustered_index_cannot_be_hidden(store: Store) -> None:
    name = made(store, A, **CLUSTERED)
    assert refused(store, on_index(name, name="by_id", hidden=True)) == 6011800
    assert refused(store, on_index(name, key_pattern={"_id": 1}, hidden=True)) == 6011800
    assert store.write_now(on_index(name, name="a_1", hidden=True)) == {
        "hidden_old": False,
        "hidden_new": True,
    }


# -- collMod of options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "changes", "code"),
    [
        ({}, {"view_on": ""}, 2),
        ({}, {"view_on": "x"}, 72),
        ({}, {"pipeline": []}, 72),
        ({}, {"capped_size": 5}, 72),
        ({}, {"capped_max": 5}, 72),
        (CAPPED, {"capped_size": 0}, 2),
        (CAPPED, {"capped_max": 2**31}, 2),
        ({}, {"expire_after_seconds": 5}, 72),
        (CLUSTERED, {"expire_after_seconds": -1}, 72),
        (CLUSTERED, {"expire_after_seconds": "on"}, 72),
        ({}, {"timeseries": {}}, 72),
        (SERIES, {"options": {"validator": {}}}, 72),
        (SERIES, {"index": IndexChange(name="m_1_t_1", expire_after_seconds=5)}, 72),
        (
            {"timeseries": {"timeField": "t", "granularity": "hours"}},
            {"timeseries": {"granularity": "minutes"}},
            72,
        ),
        ({}, {"options": {"validator": {"a": {"$nope": 1}}}}, 2),
        ({}, {"options": {"validationLevel": "nope"}}, 2),
        ({}, {"options": {"validationAction": "nope"}}, 2),
    ],
)
def test_changes_that_are_refused(store: Store, options: Document, changes: Document, code: int) -> None:
    assert refused(store, modify(made(store, **options), **changes)) == code


IMAGES: Document = {"changeStreamPreAndPostImages": {"enabled": True}}


@pytest.mark.parametrize(
    ("options", "changes", "after", "logged"),
    [
        (
            {},
            {"options": {"validator": {"a": 1}}},
            {"validator": {"a": 1}, **VALIDATED},
            {"validator": {"a": 1}},
        ),
        ({"validator": {"a": 1}}, {"options": {"validator": {}}}, VALIDATED, {"validator": {}}),
        (
            {"validationLevel": "off"},
            {"options": {"validationAction": "warn"}},
            {"validationLevel": "off", "validationAction": "warn"},
            {"validationAction": "warn"},
        ),
        (
            {},
            {"options": {"validationLevel": "off"}},
            {**VALIDATED, "validationLevel": "off"},
            {"validationLevel": "off"},
        ),
        ({}, {"options": IMAGES}, IMAGES, IMAGES),
        (
            IMAGES,
            {"options": {"changeStreamPreAndPostImages": {"enabled": False}}},
            {},
            {"changeStreamPreAndPostImages": {"enabled": False}},
        ),
        (
            IMAGES,
            {"options": {"recordPreImages": True}},
            {"recordPreImages": True},
            {"recordPreImages": True},
        ),
        (IMAGES, {"options": {"recordPreImages": False}}, IMAGES, {"recordPreImages": False}),
        (CAPPED, {"capped_size": 5000}, {"capped": True, "size": 5000}, {"cappedSize": Int64(5000)}),
        (CAPPED, {"capped_max": 5}, {**CAPPED, "max": 5}, {"cappedMax": Int64(5)}),
        (
            CAPPED,
            {"capped_max": 0, "capped_size": 1},
            {"capped": True, "size": 1, "max": 2**31 - 1},
            {"cappedSize": Int64(1), "cappedMax": Int64(0)},
        ),
    ],
)
def test_changed_options(
    store: Store, options: Document, changes: Document, after: Document, logged: Document
) -> None:
    name = made(store, **options)
    reply, (entry,) = changed(store, modify(name, **changes))
    assert reply == {}
    assert dict(found(store, name).options) == after
    assert entry["o"] == {"collMod": name, **logged}
    kept = {name: value for name, value in entry["o2"]["collectionOptions_old"].items() if name != "uuid"}
    assert kept == options


def test_new_images_replace_the_old_option(store: Store) -> None:
    name = made(store)
    store.write_now(modify(name, options={"recordPreImages": True}))
    store.write_now(modify(name, options=IMAGES))
    assert dict(found(store, name).options) == IMAGES


def test_the_expiry_of_a_clustered_collection(store: Store) -> None:
    name = made(store, **CLUSTERED)
    for seconds, logged in ((5, Int64(5)), ("off", "off"), (0, Int64(0))):
        _, (entry,) = changed(store, modify(name, expire_after_seconds=seconds))
        assert entry["o"]["expireAfterSeconds"] == logged
        assert found(store, name).options.get("expireAfterSeconds") == (None if seconds == "off" else seconds)


def test_the_buckets_of_a_time_series(store: Store) -> None:
    name = made(store, **SERIES)
    for given, after, number in (
        ({}, {"granularity": "seconds", "bucketMaxSpanSeconds": 3600}, 1),
        ({"granularity": "minutes"}, {"granularity": "minutes", "bucketMaxSpanSeconds": 86_400}, 2),
        (
            {"bucketMaxSpanSeconds": 90_000, "bucketRoundingSeconds": 90_000},
            {"bucketRoundingSeconds": 90_000, "bucketMaxSpanSeconds": 90_000},
            2,
        ),
    ):
        _, entries = changed(store, modify(name, timeseries=given, capped_size=9))
        assert found(store, name).options["timeseries"] == {"timeField": "t", "metaField": "m", **after}
        # The definition of the view is replaced first, if the change shows in it.
        assert [entry["op"] for entry in entries] == (["c"] if number == 1 else ["u", "c"])
        assert entries[-1]["o"]["timeseries"] == given
        if number == 2:
            (stage,) = entries[0]["o"]["pipeline"]
            assert stage["$_internalUnpackBucket"] == {
                "timeField": "t",
                "metaField": "m",
                "bucketMaxSpanSeconds": after["bucketMaxSpanSeconds"],
            }


def test_releases_without_expiry_of_capped_collections(store: Store) -> None:
    name = made(store, A, **CAPPED)
    expiring = on_index(name, name="a_1", expire_after_seconds=5)
    before, store.rules = store.rules, CatalogRules(ttl_on_capped=False)
    try:
        assert refused(store, expiring) == 72
        store.write_now(on_index(name, name="a_1", hidden=True))
    finally:
        store.rules = before
    store.write_now(expiring)


def test_changes_of_views(store: Store) -> None:
    name = f"v{next(_names)}"
    assert store.write_now(partial(create_view, database="shop", name=name, view_on="x", pipeline=[])) is None
    assert refused(store, modify(name, capped_size=5)) == 72
    assert refused(store, modify(name, options={"validator": {}})) == 72
    assert refused(store, on_index(name, name="a", hidden=True)) == 72
    assert refused(store, on_index(name, name="a", unique=True)) == 166
    assert refused(store, modify(name, view_on="")) == 2
    assert changed(store, modify(name, view_on="y"))[0] == {}
    view = store.catalog.view(f"shop.{name}")
    assert view is not None
    assert (view.view_on, list(view.pipeline)) == ("y", [])
    _, (entry,) = changed(store, modify(name, pipeline=[{"$limit": 1}]))
    assert (entry["op"], entry["o"]["viewOn"], entry["o"]["pipeline"]) == ("u", "y", [{"$limit": 1}])
    assert refused(store, modify("nothing", capped_size=5)) == 26


# -- renames ---------------------------------------------------------------------------------------------


def rename(source: str, target: str, to: str = "shop", **how: Any) -> Callable[[WriteUnit], Any]:
    return partial(rename_collection, source=("shop", source), target=(to, target), **how)


def test_a_rename_keeps_everything_but_the_name(store: Store) -> None:
    name = made(store, A, items=({"_id": 1, "a": 1},), temp=True)
    before = found(store, name)
    _, (entry,) = changed(store, rename(name, name + "x"))
    assert entry["o"] == {"renameCollection": f"shop.{name}", "to": f"shop.{name}x", "stayTemp": False}
    assert "o2" not in entry
    after = found(store, name + "x")
    assert (after.uuid, after.indexes, dict(after.options)) == (before.uuid, before.indexes, {})
    assert contents(store, name + "x") == [1]
    assert store.catalog.collection(f"shop.{name}") is None
    temporary = made(store, temp=True)
    _, (entry,) = changed(store, rename(temporary, temporary + "x", stay_temp=True))
    assert entry["o"]["stayTemp"] is True
    assert dict(found(store, temporary + "x").options) == {"temp": True}


def test_a_rename_drops_only_what_it_may(store: Store) -> None:
    source, target = made(store, items=({"_id": 1},)), made(store, items=({"_id": 2}, {"_id": 3}))
    gone = found(store, target)
    assert refused(store, rename(source, target)) == 48
    assert refused(store, rename(source, target, drop_target=found(store, source).uuid)) == 361
    _, (entry,) = changed(store, rename(source, target, drop_target=gone.uuid))
    assert bytes(entry["o"]["dropTarget"]) == gone.uuid
    assert entry["o2"] == {"numRecords": 2}
    assert contents(store, target) == [1]
    again = made(store, items=({"_id": 5},))
    store.write_now(rename(again, target, drop_target=True))
    assert contents(store, target) == [5]


def test_a_rename_to_another_database_copies(store: Store) -> None:
    name = made(store, A, items=({"_id": 1, "a": 1}, {"_id": 2, "a": 2}))
    before = found(store, name)
    _, entries = changed(store, rename(name, "moved", "other"))
    kinds = [next(iter(entry["o"])) if entry["op"] == "c" else entry["op"] for entry in entries]
    assert kinds == ["create", "createIndexes", "applyOps", "renameCollection", "drop"]
    after = found(store, "moved", "other")
    assert after.uuid != before.uuid
    assert [index.name for index in after.indexes] == ["_id_", "a_1"]
    assert contents(store, "moved", "other") == [1, 2]
    assert store.catalog.collection(f"shop.{name}") is None


def test_renames_that_are_refused(store: Store) -> None:
    name, series = made(store), made(store, **SERIES)
    view = f"v{next(_names)}"
    store.write_now(partial(create_view, database="shop", name=view, view_on="x", pipeline=[]))
    for work, code in (
        (rename(name, name), 20),
        (rename("nothing", "x"), 26),
        (rename(name, "a$b"), 20),
        (rename(name, "system.made_up"), 20),
        (rename(name, "system.views"), 20),
        (rename(name, "c", "SHOP"), 13297),
        (rename(name, "c", "local"), 20),
        (rename(name, view), 48),
        (rename(name, series, drop_target=True), 48),
        (rename(view, "x"), 166),
        (rename(series, "x"), 166),
        (rename(f"system.buckets.{series}", "x"), 20),
        (rename("system.views", "x"), 20),
    ):
        assert refused(store, work) == code


def to_capped(name: str, size: int) -> Callable[[WriteUnit], Any]:
    return partial(convert_to_capped, database="shop", name=name, size=size)


def test_a_collection_becomes_capped_with_its_newest_documents(store: Store) -> None:
    name = made(store, A, items=tuple({"_id": n, "x": "y" * 80} for n in range(300)), validationLevel="off")
    _, entries = changed(store, to_capped(name, 2000))
    after = found(store, name)
    assert dict(after.options) == {"capped": True, "size": 2000, "validationLevel": "off"}
    assert [index.name for index in after.indexes] == ["_id_"]
    kept = contents(store, name)
    assert kept == list(range(300 - len(kept), 300))
    assert 15 <= len(kept) <= 20
    assert entries[0]["o"]["temp"] is True
    assert entries[-1]["o"]["stayTemp"] is False
    # The oldest are not even copied. What is copied is marked like a migration, and what makes room is not.
    copied = [o for entry in entries for o in entry["o"].get("applyOps", [entry]) if o["op"] == "i"]
    size = len(documents.encode({"_id": 0, "x": "y" * 80}))
    assert len(copied) == 300 - ceil((300 * size - 8192) / (4 * size))
    marks = {entry["op"]: entry.get("fromMigrate") for entry in entries}
    assert (marks["i"], marks["d"]) == (True, None)


def test_conversions_that_are_refused(store: Store) -> None:
    name, series = made(store), made(store, **SERIES)
    assert refused(store, to_capped(name, 0)) == 2
    assert refused(store, to_capped("nothing", 5)) == 26
    assert refused(store, to_capped(series, 5)) == 166
    js = store.write_now(lambda unit: create_collection(unit, "shop", "system.js", {}))
    assert refused(store, to_capped(js.name, 4096)) == 2


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"size": 100}, 1),
        ({"size": 200}, 2),
        ({"size": 299}, 2),
        ({"size": 300}, 3),
        ({"size": 4096, "max": 1}, 1),
        ({"size": 4096, "max": 2}, 2),
        ({"size": 4096, "max": 0}, 5),
        ({"size": 200, "max": 4}, 2),
    ],
)
def test_a_capped_collection_has_as_much_as_fits(store: Store, options: Document, kept: int) -> None:
    name = made(store, capped=True, **options)
    filler = "x" * (100 - len(documents.encode({"_id": 0, "x": ""})))

    def work(unit: WriteUnit) -> None:
        for n in range(5):
            insert_capped(unit, found(store, name), documents.encode({"_id": n, "x": filler}), None)

    _, entries = changed(store, work)
    assert contents(store, name) == list(range(5 - kept, 5))
    assert [entry["op"] for entry in entries].count("d") == 5 - kept
    assert (
        refused(
            store,
            lambda unit: insert_capped(
                unit, found(store, name), documents.encode({"_id": 9, "x": "y" * options["size"]}), None
            ),
        )
        == 2
    )
