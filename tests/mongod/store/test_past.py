"""States of a store at earlier times: after a restart and a crash, and within the size of the window."""

import shutil
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bson import Timestamp

from tailrace.bson import documents
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened

NS = "shop.orders"
KEYS = 20


def read_at(store: Store, time: int) -> list[bytes]:
    with store.snapshot_at(time) as snapshot:
        collection = snapshot.catalog.collection(NS)
        assert collection is not None
        found = [document for _, document in snapshot.records(collection)]
        assert snapshot.count(collection)[0] == len(found)
        return found


def change(random: Random, size: int, unit: WriteUnit) -> None:
    collection = _orders(unit)
    document = documents.encode({"_id": random.randrange(KEYS), "text": "x" * random.randint(0, size)})
    key = id_key_of(document)
    assert key is not None
    found = unit.find_id(collection, key)
    if found is None:
        unit.insert(collection, document)
    elif random.random() < 0.5:
        unit.delete(collection, *found)
    else:
        unit.update(collection, *found, document, document)


def _orders(unit: WriteUnit) -> Collection:
    found = unit.catalog.collection(NS)
    return unit.create_collection("shop", "orders") if found is None else found


def write(store: Store, random: Random, *, count: int, size: int = 100) -> dict[int, list[bytes]]:
    """Random changes; returns what was there after each of them, by time."""
    seen = {}
    for _ in range(count):
        store.write_now(partial(change, random, size))
        seen[store.last_committed] = read_at(store, store.last_committed)
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_after_a_restart(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    seen: dict[int, list[bytes]] = {}
    for _ in range(3):
        with opened(tmp_path) as store:
            seen |= write(store, random, count=40)
            for time, expected in seen.items():
                assert read_at(store, time) == expected


@pytest.mark.parametrize("seed", range(3))
def test_scans_from_any_place_in_both_directions(tmp_path: Path, seed: int) -> None:
    """What a past state shows is what a snapshot showed that was opened then."""
    random = Random(seed)
    text = {"v": 2, "key": {"text": 1}, "name": "text_1"}
    with opened(tmp_path) as store:
        store.write_now(lambda unit: unit.add_index(_orders(unit), text))
        write(store, random, count=30, size=5)
        time = store.last_committed
        with store.snapshot() as then:
            write(store, random, count=30, size=5)
            collection = then.catalog.collection(NS)
            assert collection is not None
            with store.snapshot_at(time) as past:
                keys = [None, *(key for key, _ in then.records(collection)), b"", b"\xff" * 8]
                for after in keys:
                    for reverse in (False, True):
                        assert list(past.records(collection, after, reverse=reverse)) == list(
                            then.records(collection, after, reverse=reverse)
                        )
                for index in collection.indexes:
                    for lower, upper in (
                        (b"", b"\xff"),
                        (b"\x3c\x78", b"\x3c\x78\x78\x78"),
                        (b"\x2b", b"\x2c"),
                    ):
                        places = [place for place, _ in then.index_entries(collection, index, lower, upper)]
                        for place in (None, *places[::3]):
                            for reverse in (False, True):
                                how: dict[str, Any] = {"after": place, "reverse": reverse}
                                found = past.index_entries(collection, index, lower, upper, **how)
                                assert list(found) == list(
                                    then.index_entries(collection, index, lower, upper, **how)
                                )


def test_after_a_crash(tmp_path: Path) -> None:
    random = Random(7)
    with opened(tmp_path / "first") as store:
        seen = write(store, random, count=100)
        # What a process that is killed leaves: the files as they are after the last commit.
        shutil.copytree(tmp_path / "first", tmp_path / "crashed", ignore=shutil.ignore_patterns("lock.mdb"))
    with opened(tmp_path / "crashed") as store:
        seen |= write(store, random, count=20)
        for time, expected in seen.items():
            assert read_at(store, time) == expected


def test_the_table_does_not_grow_beyond_its_size(tmp_path: Path) -> None:
    random = Random(3)
    with opened(tmp_path, map_size=64 << 20, oplog_size=1 << 20) as store:
        first = next(iter(write(store, random, count=1)))
        for _ in range(600):
            store.write_now(partial(change, random, 100_000))
        with store.tables.environment.begin() as transaction:
            used = transaction.stat(store.tables.undo)
        assert (used["leaf_pages"] + used["overflow_pages"]) * used["psize"] < 6 << 20
        with pytest.raises(CommandError) as caught:
            read_at(store, first)
        assert caught.value.code == 239
        last = store.last_committed
        expected = read_at(store, last)
        store.write_now(partial(change, random, 100))
        assert read_at(store, last) == expected


def test_times_before_a_store_existed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        write(store, Random(1), count=1)
        for time, code in ((1, 246), (store.past.since, 246)):
            with pytest.raises(CommandError) as caught:
                read_at(store, time)
            assert caught.value.code == code, to_timestamp(time)
        with store.snapshot_at(1) as snapshot, pytest.raises(CommandError) as caught:
            snapshot.catalog.collection("shop.nothing")
        assert caught.value.code == 239
        assert isinstance(to_timestamp(store.past.since), Timestamp)
