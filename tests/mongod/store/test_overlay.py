"""The changes of a transaction to one collection: read with a snapshot, and undone to a checkpoint."""

import random
from typing import Any

import pytest

from tailrace.bson import documents
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.index_keys import all_index_keys, stored_key
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.overlay import Overlay
from tailrace.mongod.store.write_unit import WriteUnit

UNIQUE = {"v": 2, "key": {"u": 1}, "name": "u_1", "unique": True}
TAGS = {"v": 2, "key": {"tags": 1}, "name": "tags_1"}


@pytest.fixture
def collection(store: Store) -> Collection:
    def work(unit: WriteUnit) -> Collection:
        collection = unit.create_collection("shop", "c")
        for spec in (UNIQUE, TAGS):
            collection = unit.add_index(collection, spec)
        return collection

    return store.write_now(work)


def key_of(number: int) -> bytes:
    return number.to_bytes(8, "big")


def document(rng: random.Random, number: int) -> bytes:
    tags = rng.choice([[], ["a"], ["a", "b"], "c"])
    return documents.encode({"_id": number, "u": number, "tags": tags, "pad": "x" * rng.randrange(20)})


class Model:
    """What a snapshot and the changes on it have together, kept in a dict."""

    def __init__(self, collection: Collection, base: dict[bytes, bytes]) -> None:
        self.collection = collection
        self.base = base
        self.now = dict(base)

    def entries(self, number: int, source: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        index = self.collection.indexes[number]
        return sorted(
            (stored_key(index, index_key, key), key)
            for key, found in source.items()
            for index_key in all_index_keys(index, found)
        )

    def check(self, overlay: Overlay) -> None:
        rows = sorted(self.now.items())
        base = sorted(self.base.items())
        for reverse in (False, True):
            order: Any = reversed if reverse else iter
            found = list(overlay.merged_records(order(base), None, reverse=reverse))
            assert found == list(order(rows))
            for place in range(0, len(rows), 3):
                after = rows[place][0]
                rest = [row for row in base if (row[0] < after if reverse else row[0] > after)]
                wanted = [row for row in order(rows) if (row[0] < after if reverse else row[0] > after)]
                assert list(overlay.merged_records(order(rest), after, reverse=reverse)) == wanted
            for number, index in enumerate(self.collection.indexes):
                under, over = self.entries(number, self.base), self.entries(number, self.now)
                listed = overlay.merged_entries(index, order(under), b"", None, None, reverse=reverse)
                assert list(listed) == list(order(over))
        assert overlay.number == len(self.now) - len(self.base)
        assert overlay.size == sum(map(len, self.now.values())) - sum(map(len, self.base.values()))


@pytest.mark.parametrize("seed", range(8))
def test_changes_are_read_with_their_snapshot_and_undone(collection: Collection, seed: int) -> None:
    rng = random.Random(seed)
    model = Model(collection, {key_of(n): document(rng, n) for n in range(12)})
    overlay = Overlay(collection)

    def change(times: int) -> None:
        for _ in range(times):
            key = key_of(rng.randrange(18))
            before = model.now.get(key)
            after = (
                None
                if before is not None and rng.random() < 0.4
                else document(rng, int.from_bytes(key, "big"))
            )
            overlay.put(key, before, after)
            if after is None:
                del model.now[key]
            else:
                model.now[key] = after

    for _ in range(4):
        change(rng.randrange(1, 6))
        model.check(overlay)
        overlay.checkpoint()
        kept = dict(model.now)
        change(rng.randrange(1, 9))
        model.check(overlay)
        overlay.undo()
        model.now = kept
        model.check(overlay)


def test_the_keys_that_changed_records_have(collection: Collection) -> None:
    overlay = Overlay(collection)
    _, unique, tags = collection.indexes
    found = documents.encode({"_id": 1, "u": 5, "tags": ["a", "b"]})
    (u_key,) = all_index_keys(unique, found)
    a_key, b_key = all_index_keys(tags, found)
    assert overlay.record_key(unique, u_key) is None
    assert not overlay.lists(unique, u_key)
    overlay.put(b"k", None, found)
    assert overlay.record_key(unique, u_key) == b"k"
    assert overlay.record_key(unique, u_key + b"x") is None
    assert [overlay.lists(unique, u_key), overlay.lists(tags, a_key), overlay.lists(tags, b_key)] == [
        True
    ] * 3
    assert not overlay.lists(unique, u_key[:-1])
    assert not overlay.lists(tags, a_key + b"\xff")
    assert (overlay.is_multikey(tags), overlay.is_multikey(unique)) == (True, False)
    overlay.put(b"k", found, None)
    assert overlay.record_key(unique, u_key) is None
    assert not overlay.lists(tags, a_key)
