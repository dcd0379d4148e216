"""Find the collection that a command names, or raise the error for a missing one."""

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog, Collection


def existing_collection(catalog: Catalog, database: str, name: str) -> Collection:
    """The collection of that name; raises CommandNotSupportedOnView (166) or NamespaceNotFound (26)."""
    ns = f"{database}.{name}"
    collection = catalog.collection(ns)
    if collection is not None:
        return collection
    if catalog.view(ns) is not None:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, f"Namespace {ns} is a view, not a collection")
    raise CommandError(ErrorCode.NamespaceNotFound, f"ns does not exist: {ns}")


def check_uuid(catalog: Catalog, database: str, name: str, expected: bytes | None) -> None:
    """Refuse a command whose `collectionUUID` differs from that of the collection it names (361)."""
    if expected is None:
        return
    collection = catalog.collection(f"{database}.{name}")
    if collection is not None and collection.uuid == expected:
        return
    actual = catalog.by_uuid(expected)
    error = CommandError(ErrorCode.CollectionUUIDMismatch, "Collection UUID does not match that specified")
    error.details = {
        "db": database,
        "collectionUUID": Binary(expected, 4),
        "expectedCollection": name,
        "actualCollection": actual.name if actual is not None and actual.database == database else None,
    }
    raise error


def check_writable(collection: Collection) -> None:
    """Refuse a change of one of the server's own collections (IllegalOperation, 20)."""
    if collection.is_internal:
        raise CommandError(
            ErrorCode.IllegalOperation, f"{collection.ns} belongs to the server and cannot be changed"
        )
