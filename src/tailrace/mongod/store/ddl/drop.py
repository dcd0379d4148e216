"""`drop` and `dropDatabase`."""

from typing import Any, Final

from bson import Int64

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.store.catalog import OPLOG_NS, VIEWS, Collection
from tailrace.mongod.store.ddl.names import SYSTEM_PREFIX, is_legal_system_name
from tailrace.mongod.store.ddl.views import drop_view, forget_views
from tailrace.mongod.store.write_unit import WriteUnit

_MAY_BE_DROPPED: Final = frozenset({"system.js", "system.profile", VIEWS})


def drop(unit: WriteUnit, database: str, name: str) -> dict[str, Any]:
    """Drop a collection or a view; returns the fields of the reply, none if it does not exist."""
    ns = f"{database}.{name}"
    if unit.catalog.view(ns) is not None:
        drop_view(unit, database, name)
        return {"ns": ns}
    collection = unit.catalog.collection(ns)
    if collection is None:
        return {}
    _check_droppable(collection)
    drop_collection(unit, collection)
    return {"nIndexesWas": index_count(collection), "ns": ns}


def drop_collection(unit: WriteUnit, collection: Collection, *, from_migrate: bool | None = None) -> None:
    """Remove a collection with its documents and log it; ``from_migrate`` hides the entry from streams."""
    number = unit.count(collection)[0]
    unit.remove_collection(collection)
    if collection.name == VIEWS:
        forget_views(unit, collection.database)
    if collection.is_logged:
        unit.log(
            command(
                collection.database,
                {"drop": collection.name},
                uuid=collection.uuid,
                o2=count_document(number),
                is_timeseries=collection.is_timeseries,
                from_migrate=from_migrate,
            )
        )


def drop_database(unit: WriteUnit, database: str) -> dict[str, Any]:
    """Drop every collection of a database and then the database; returns the fields of the reply."""
    check_database_droppable(database)
    if not list(unit.catalog.collections(database)):
        return {}
    drop_everything(unit, database)
    return {"dropped": database}


def drop_everything(unit: WriteUnit, database: str, *, from_migrate: bool = False) -> None:
    """Drop the collections of a database, if any, and log the drop of the database."""
    collections = list(unit.catalog.collections(database))
    for collection in collections:
        unit.check_unused(collection)
    for collection in collections:
        drop_collection(unit, collection, from_migrate=from_migrate or None)
    unit.log(command(database, {"dropDatabase": 1}, from_migrate=from_migrate))


def check_database_droppable(database: str) -> None:
    """Refuse to drop one of the server's own databases (IllegalOperation, 20)."""
    if database in INTERNAL_DATABASES:
        raise CommandError(ErrorCode.IllegalOperation, f"Dropping the '{database}' database is prohibited.")


def count_document(number: int) -> bytes:
    """`o2` of an entry that removes a collection."""
    return documents.encode({"numRecords": Int64(number)})


def index_count(collection: Collection) -> int:
    """The number of indexes that listIndexes shows; includes a clustered index that a client asked for."""
    shown = collection.is_clustered and not collection.is_timeseries
    return len(collection.indexes) + int(shown)


def _check_droppable(collection: Collection) -> None:
    if collection.ns == OPLOG_NS:
        raise CommandError(ErrorCode.IllegalOperation, "can't drop live oplog while replicating")
    name = collection.name
    is_system = name.startswith(SYSTEM_PREFIX) and name not in _MAY_BE_DROPPED
    if collection.is_internal or (is_system and not is_legal_system_name(collection.database, name)):
        raise CommandError(ErrorCode.IllegalOperation, f"can't drop system collection {collection.ns}")
