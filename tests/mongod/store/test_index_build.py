"""Builds of indexes, with changes at every moment of them."""

import random
from collections import deque
from functools import partial
from pathlib import Path

import pytest

from tailrace.bson import documents
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.ddl.create_and_drop_indexes import create_indexes
from tailrace.mongod.store.indexes.index_build import BuildScan, add_keys, end_build
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.validation import Validation
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened

SPECS = (
    {"key": {"a": 1}, "name": "plain"},
    {"key": {"a": 1, "b": -1}, "name": "unique", "unique": True},
    {"key": {"list": 1}, "name": "arrays", "partialFilterExpression": {"b": {"$gt": 30}}},
)
PADDING = "x" * 2000


def document(identity: int, rng: random.Random) -> bytes:
    fields = {"_id": identity, "a": rng.randrange(60), "b": rng.randrange(60), "pad": PADDING}
    fields["list"] = [rng.randrange(9) for _ in range(rng.randrange(5))]
    return documents.encode(fields)


def begun(store: Store) -> BuildScan:
    created = store.write_now(lambda unit: create_indexes(unit, "shop", "c", SPECS))
    assert created.scan is not None, "the collection is not small"
    return created.scan


def change(unit: WriteUnit, rng: random.Random) -> None:
    """Insert, change or remove some documents."""
    collection = unit.catalog.collection("shop.c")
    assert collection is not None
    for _ in range(rng.randrange(4)):
        records = list(unit.records(collection))
        key, before = rng.choice(records)
        match rng.randrange(3):
            case 0:
                unit.insert(collection, document(rng.randrange(10**9), rng))
            case 1:
                unit.delete(collection, key, before)
            case _:
                after = document(documents.decode(before)["_id"], rng)
                unit.update(collection, key, before, after, after)


@pytest.mark.parametrize("seed", range(20))
def test_an_index_that_was_built_during_changes_is_right(tmp_path: Path, seed: int) -> None:
    print("seed", seed)
    rng = random.Random(seed)
    with opened(tmp_path) as store:
        made = store.write_now(lambda unit: unit.create_collection("shop", "c"))
        store.write_now(lambda unit: [unit.insert(made, document(n, rng)) for n in range(90)] and None)
        scan = begun(store)
        while True:
            store.write_now(partial(change, rng=rng))
            with store.snapshot() as snapshot:
                piece = scan.next_piece(snapshot)
            if not piece:
                break
            store.write_now(partial(change, rng=rng))
            for start in range(0, len(piece), 40):
                store.write_now(partial(add_keys, scan=scan, piece=piece[start : start + 40]))
                store.write_now(partial(change, rng=rng))
        failure = store.write_now(partial(end_build, scan=scan))
        collection = store.catalog.collection("shop.c")
        assert collection is not None
        assert collection.build is None
        assert is_unique(store, collection) == (failure is None)
        assert len(collection.indexes) == (4 if failure is None else 1)
        with store.snapshot() as snapshot:
            validation = Validation(snapshot, collection)
            deque(validation.steps(), maxlen=0)
            assert validation.valid


def is_unique(store: Store, collection: Collection) -> bool:
    with store.snapshot() as snapshot:
        found = [documents.decode(raw) for _, raw in snapshot.records(collection)]
    return len({(each["a"], each["b"]) for each in found}) == len(found)
