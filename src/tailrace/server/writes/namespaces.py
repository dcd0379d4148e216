"""Which collections can be written to, and making one that is not there yet."""

from typing import Any, Final

from bson import Binary
from bson.binary import UUID_SUBTYPE

from tailrace.bsonio.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.server.writes.unit import WritingUnit
from tailrace.store.catalog import Catalog, Collection

MAX_NAMESPACE_BYTES: Final = 255
_WRITABLE_SYSTEM: Final = frozenset(
    {
        "admin.system.backup_users", "admin.system.new_users", "admin.system.roles", "admin.system.users",
        "admin.system.version", "config.system.sessions",
    }
)  # fmt: skip
_WRITABLE_SYSTEM_ANYWHERE: Final = ("system.js", "system.buckets.")


def existing_collection(catalog: Catalog, database: str, name: str) -> Collection | None:
    """The collection that a statement writes to; None if it is not there.

    Raises for what cannot be written to: views, the server's own collections, reserved names.
    """
    ns = f"{database}.{name}"
    collection = catalog.collection(ns)
    if collection is not None:
        if collection.is_internal or (name.startswith("system.") and not _is_writable_system(ns, name)):
            raise _not_writable(ns)
        return collection
    if catalog.view(ns) is not None:
        reason = f"Namespace {ns} is a view, not a collection"
        raise CommandError(ErrorCode.CommandNotSupportedOnView, reason)
    if name.startswith("system.") and not _is_writable_system(ns, name):
        raise _not_writable(ns)
    return None


def collection_to_insert(unit: WritingUnit, database: str, name: str) -> Collection:
    """The collection that a document is put into, which is made if it is not there."""
    found = existing_collection(unit.catalog, database, name)
    if found is not None:
        return found
    _check_new_name(unit.catalog, database, name)
    return unit.create_collection(database, name)


def check_collection_uuid(catalog: Catalog, database: str, name: str, expected: Any) -> None:
    """Refuse a command whose `collectionUUID` is that of another collection."""
    if expected is None:
        return
    if not isinstance(expected, Binary) or expected.subtype != UUID_SUBTYPE:
        found_type = type_name(expected)
        reason = f"BSON field 'collectionUUID' is the wrong type '{found_type}', expected type 'binData'"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    found = catalog.collection(f"{database}.{name}")
    if found is not None and found.uuid == bytes(expected):
        return
    actual = catalog.by_uuid(bytes(expected))
    error = CommandError(ErrorCode.CollectionUUIDMismatch, "Collection UUID does not match that specified")
    error.details = {
        "db": database,
        "collectionUUID": expected,
        "expectedCollection": name,
        "actualCollection": actual.name if actual is not None and actual.database == database else None,
    }
    raise error


def _check_new_name(catalog: Catalog, database: str, name: str) -> None:
    ns = f"{database}.{name}"
    if not name or name.startswith(".") or "$" in name or "\0" in name:
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid collection name: {name}")
    if len(ns.encode()) > MAX_NAMESPACE_BYTES:
        reason = f"Fully qualified namespace is too long. Namespace: {ns} Max: {MAX_NAMESPACE_BYTES}"
        raise CommandError(ErrorCode.InvalidNamespace, reason)
    databases = catalog.databases()
    if database not in databases:
        for other in databases:
            if other.lower() == database.lower():
                reason = (
                    "db already exists with different case already have: "
                    f"[{other}] trying to create [{database}]"
                )
                raise CommandError(ErrorCode.DatabaseDifferCase, reason)


def _is_writable_system(ns: str, name: str) -> bool:
    return ns in _WRITABLE_SYSTEM or name.startswith(_WRITABLE_SYSTEM_ANYWHERE)


def _not_writable(ns: str) -> CommandError:
    return CommandError(ErrorCode.InvalidNamespace, f"cannot write to {ns!r}")
