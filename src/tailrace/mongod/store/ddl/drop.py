"""`drop` and `dropDatabase`."""

from typing import Any, Final

from bson import Int64

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.store.catalog import BUCKETS, OPLOG_NS, VIEWS, Collection
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.timeseries import drop_definition
from tailrace.mongod.store.ddl.views import drop_view, forget_views
from tailrace.mongod.store.write_unit import WriteUnit

_NEVER_DROPPED: Final = frozenset({"admin.system.version"})


def drop(unit: WriteUnit, database: str, name: str) -> dict[str, Any]:
    """Drop a collection or a view; returns the fields of the reply.

    If there is none of that name the reply is empty, or an error (26) in releases where it was one.
    """
    ns = f"{database}.{name}"
    if unit.catalog.view(ns) is not None:
        drop_view(unit, database, name)
        return {"ns": ns}
    collection = unit.catalog.collection(ns)
    if collection is None:
        _check_droppable(database, name)
        if unit.rules.repeats_are_errors:
            raise CommandError(ErrorCode.NamespaceNotFound, "ns not found")
        return {}
    _check_droppable(database, name, is_internal=collection.is_internal)
    if name == VIEWS and any(each.is_timeseries for each in unit.catalog.collections(database)):
        reason = f"cannot drop collection {ns} when time-series collections are present"
        raise CommandError(ErrorCode.CommandFailed, reason)
    if "timeseries" in collection.options:
        unit.check_unused(collection)
        drop_definition(unit, collection)
        ns = f"{database}.{name.removeprefix(BUCKETS)}"
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
                o2=count_document(number, unit.rules),
                from_migrate=from_migrate,
            )
        )


def drop_database(unit: WriteUnit, database: str) -> None:
    """Drop every collection of a database and then the database, unless there never was one."""
    check_database_droppable(database)
    if unit.catalog.has_opened(database):
        drop_everything(unit, database)


def drop_everything(unit: WriteUnit, database: str, *, from_migrate: bool = False) -> None:
    """Drop the collections of a database, if any, and log the drop of the database."""
    collections = list(unit.catalog.collections(database))
    for collection in collections:
        unit.check_unused(collection)
    for collection in collections:
        drop_collection(unit, collection, from_migrate=from_migrate or None)
    unit.publish(unit.catalog.without_database(database))
    shown = from_migrate if unit.rules.marks_database_drops else from_migrate or None
    unit.log(command(database, {"dropDatabase": 1}, from_migrate=shown))


def check_database_droppable(database: str) -> None:
    """Refuse to drop one of the server's own databases (IllegalOperation, 20)."""
    if database in INTERNAL_DATABASES:
        raise CommandError(ErrorCode.IllegalOperation, f"Dropping the '{database}' database is prohibited.")


def count_document(number: int, rules: CatalogRules) -> bytes:
    """`o2` of an entry that removes a collection."""
    return documents.encode({"numRecords": Int64(number) if rules.long_counts else number})


def index_count(collection: Collection) -> int:
    """The number of indexes in replies; the one that a collection is clustered by does not count."""
    return len(collection.indexes)


def _check_droppable(database: str, name: str, *, is_internal: bool = False) -> None:
    ns = f"{database}.{name}"
    if ns == OPLOG_NS:
        raise CommandError(5255000, "can't drop live oplog while replicating")
    if is_internal or ns in _NEVER_DROPPED:
        raise CommandError(ErrorCode.IllegalOperation, f"can't drop system collection {ns}")
