"""Documents of the config server's collections: read them, and write or remove them as part of a job."""

from collections.abc import Collection as Names
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tailrace.bson.documents import decode, encode
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.reader import Reader, Record
from tailrace.mongod.store.write_unit import WriteUnit

_DATABASE: Final = "config"


def documents_of(reader: Reader, name: str) -> Iterator[dict[str, Any]]:
    """All documents of a collection of the database `config`; none if there is no such collection."""
    collection = reader.catalog.collection(f"{_DATABASE}.{name}")
    if collection is not None:
        for _, document in reader.records(collection):
            yield decode(document)


def document_of(reader: Reader, name: str, identity: Any) -> dict[str, Any] | None:
    """One document, by its `_id`."""
    found = _find(reader, reader.catalog.collection(f"{_DATABASE}.{name}"), identity)
    return None if found is None else decode(found[1])


def insert_document(unit: WriteUnit, name: str, document: Mapping[str, Any]) -> None:
    """Insert a document; its collection is created if it does not exist."""
    collection = unit.catalog.collection(f"{_DATABASE}.{name}") or unit.create_collection(_DATABASE, name)
    unit.insert(collection, encode(document))


def remove_document(unit: WriteUnit, name: str, identity: Any) -> None:
    """Remove the document with this `_id`, if it exists."""
    collection = unit.catalog.collection(f"{_DATABASE}.{name}")
    found = _find(unit, collection, identity)
    if collection is not None and found is not None:
        unit.delete(collection, *found)


def merge_document(
    unit: WriteUnit, collection: Collection, document: Mapping[str, Any], removed: Names[str] = ()
) -> bool:
    """Set fields of the document with the same `_id`; returns False if there is none."""
    found = _find(unit, collection, document["_id"])
    if found is None:
        return False
    record, raw = found
    rest = {field: value for field, value in decode(raw).items() if field not in removed}
    encoded = encode({**rest, **document})
    if encoded != raw:
        unit.update(collection, record, raw, encoded, encoded)
    return True


def _find(reader: Reader, collection: Collection | None, identity: Any) -> Record | None:
    key = id_key_of(encode({"_id": identity}))
    return None if collection is None or key is None else reader.find_id(collection, key)
