"""Settings that are stored with the data, as documents in the database `config`."""

from collections.abc import Callable, Mapping
from typing import Any

from bson import Timestamp

from tailrace.bson.documents import decode, encode
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit


class StoredSetting:
    """One document, found by its `_id`."""

    def __init__(self, collection: str, identity: str) -> None:
        self._collection = collection
        self._identity = identity
        self._ns = f"config.{collection}"

    def load(self, reader: Reader) -> dict[str, Any] | None:
        """The document without its `_id`; None if it was never stored."""
        collection = reader.catalog.collection(self._ns)
        key = id_key_of(encode({"_id": self._identity}))
        if collection is None or key is None:
            return None
        found = reader.find_id(collection, key)
        if found is None:
            return None
        document = decode(found[1])
        del document["_id"]
        return document

    async def save(self, store: Store, fields: Callable[[Timestamp], Mapping[str, Any]]) -> dict[str, Any]:
        """Store what ``fields`` returns for the time of the change; returns it with the added fields."""

        def work(unit: WriteUnit) -> dict[str, Any]:
            document = {"_id": self._identity, **fields(to_timestamp(unit.clock.tick()))}
            encoded = encode(document)
            collection = unit.catalog.collection(self._ns)
            if collection is None:
                collection = unit.create_collection("config", self._collection)
            found = unit.find_id(collection, id_key_of(encoded) or b"")
            if found is None:
                unit.insert(collection, encoded)
            else:
                unit.update(collection, found[0], found[1], encoded, encoded)
            del document["_id"]
            return document

        return await store.write(work)
