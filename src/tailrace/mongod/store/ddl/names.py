"""Which names collections and views may have."""

from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog

MAX_NAMESPACE_BYTES: Final = 255
SYSTEM_PREFIX: Final = "system."
_SYSTEM_COLLECTIONS: Final = frozenset({"system.js", "system.views", "system.profile", "system.users"})
_SYSTEM_FAMILIES: Final = ("system.buckets.", "system.resharding.")
_SYSTEM_OF_ADMIN: Final = frozenset({"system.users", "system.roles", "system.version", "system.keys"})


def check_collection_name(database: str, name: str) -> None:
    """Refuse a name that no collection can have (InvalidNamespace, 73)."""
    ns = f"{database}.{name}"
    if not name or name.startswith((".", "$")) or ".$" in name or "\0" in name:
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid namespace specified '{ns}'")
    if len(ns.encode()) > MAX_NAMESPACE_BYTES:
        raise CommandError(
            ErrorCode.InvalidNamespace,
            f"Fully qualified namespace is too long. Namespace: {ns} Max: {MAX_NAMESPACE_BYTES}",
        )


def check_new_collection(catalog: Catalog, database: str, name: str) -> None:
    """Refuse a name with which no client may create a collection, by a command or by a first insert."""
    check_collection_name(database, name)
    if "$" in name:
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid collection name: {name}")
    if name.startswith(SYSTEM_PREFIX) and not is_legal_system_name(database, name):
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid system namespace: {database}.{name}")
    for other in catalog.databases():
        if other != database and other.lower() == database.lower():
            raise CommandError(
                ErrorCode.DatabaseDifferCase,
                f"db already exists with different case already have: [{other}] trying to create "
                f"[{database}]",
            )


def is_legal_system_name(database: str, name: str) -> bool:
    """Whether clients may use this collection name, which begins with `system.`."""
    if name in _SYSTEM_COLLECTIONS or name.startswith(_SYSTEM_FAMILIES):
        return True
    return database in ("admin", "config") and name in _SYSTEM_OF_ADMIN
