"""What is being moved, written down on the config server before anything is: `config.migrations`.

A cluster that is killed finds there, when it starts again, what has to be finished or undone. Which of the
two it is says the placement: it changes in one step, and from then on the data is in its new place.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bson import ObjectId

from tailrace.bson.documents import decode, encode
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

_COLLECTION: Final = "migrations"
_NS: Final = f"config.{_COLLECTION}"


class MoveRecords:
    """The records, in the config server's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._store.snapshot() as snapshot:
            collection = snapshot.catalog.collection(_NS)
            found = [] if collection is None else [decode(raw) for _, raw in snapshot.records(collection)]
        return iter(found)

    async def add(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Write a record; it is on disk when this returns."""
        record = {"_id": ObjectId(), **facts}

        def work(unit: WriteUnit) -> None:
            collection = unit.catalog.collection(_NS) or unit.create_collection("config", _COLLECTION)
            unit.insert(collection, encode(record))

        await self._store.write(work)
        return record

    async def remove(self, record: Mapping[str, Any]) -> None:
        """Take a record out: there is nothing left to do about it."""
        key = id_key_of(encode({"_id": record["_id"]}))

        def work(unit: WriteUnit) -> None:
            collection = unit.catalog.collection(_NS)
            found = None if collection is None or key is None else unit.find_id(collection, key)
            if collection is not None and found is not None:
                unit.delete(collection, *found)

        await self._store.write(work)
