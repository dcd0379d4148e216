"""Data directories whose indexes on `_id` were made without the collation of their collection."""

from pathlib import Path

import pytest

from tailrace.bson.documents import encode
from tailrace.errors import UsageError
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

COLLATION = {"locale": "en", "strength": 2}


def written_before(path: Path, *ids: str) -> None:
    """A data directory as an earlier version left it: keys of `_id` that are the strings' own bytes."""
    store = Store.open(path)

    def work(unit: WriteUnit) -> None:
        collection = unit.create_collection("shop", "items", {"collation": COLLATION})
        index = collection.id_index
        assert index is not None
        for each in ids:
            document = encode({"_id": each})
            key = unit.insert(collection, document)
            table, transaction = unit.state.tables.index, unit.state.transaction
            transaction.delete(index.prefix + (collection.id_key(document) or b""), db=table)
            transaction.put(index.prefix + (id_key_of(document) or b""), key, db=table)
        unit.put_meta("collatedIds", None)

    store.write_now(work)
    store.close()


def test_they_are_made_again_once(tmp_path: Path) -> None:
    written_before(tmp_path, "a", "B")
    for _ in range(2):
        store = Store.open(tmp_path)
        with store.snapshot() as snapshot:
            collection = snapshot.catalog.collection("shop.items")
            assert collection is not None
            keys = [collection.id_key(encode({"_id": each})) or b"" for each in ("A", "b")]
            found = [(snapshot.find_id(collection, key) or (b"", b""))[1] for key in keys]
        assert found == [encode({"_id": "a"}), encode({"_id": "B"})]
        store.close()


def test_two_that_are_one_now_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    written_before(tmp_path, "a", "A")
    for _ in range(2):
        with pytest.raises(UsageError, match="its collation makes two _ids equal"):
            Store.open(tmp_path)
