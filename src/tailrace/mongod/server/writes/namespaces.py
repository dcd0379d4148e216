"""Check the namespaces that statements write to, and create missing collections."""

from dataclasses import dataclass
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.mongod.store.ddl.names import SYSTEM_PREFIX, check_collection_name, check_new_collection
from tailrace.mongod.store.unit_of_work import UnitOfWork

_WRITABLE_SYSTEM: Final = frozenset(
    {
        "admin.system.backup_users", "admin.system.new_users", "admin.system.roles", "admin.system.users",
        "admin.system.version", "config.system.sessions", "config.system.preimages",
    }
)  # fmt: skip
_WRITABLE_SYSTEM_ANYWHERE: Final = ("system.js", "system.users", "system.buckets.", "system.resharding.")
_SYSTEM_IN_TRANSACTION: Final = 50791
_NEVER_WRITABLE: Final = frozenset({"local.oplog.rs", "system.views", "system.profile"})


@dataclass(frozen=True, slots=True)
class Namespace:
    database: str
    name: str
    uuid: bytes | None = None
    """`collectionUUID`, if the client gives it."""

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @classmethod
    def parse(cls, ns: str, uuid: bytes | None = None) -> "Namespace":
        """Split a full name; raises if it is invalid."""
        database, _, name = ns.partition(".")
        if not (database and name) or name.startswith(".") or "\0" in ns:
            raise CommandError(ErrorCode.InvalidNamespace, f"Invalid namespace specified '{ns}'")
        return cls(database, name, uuid)

    def check_writable(self, unit: UnitOfWork) -> None:
        """Refuse a name that no client may write to; this is an error of the command, not of a statement."""
        check_collection_name(self.database, self.name)
        if "$" in self.name:
            raise CommandError(ErrorCode.InvalidNamespace, f"Invalid collection name: {self.name}")
        if self.name.startswith(SYSTEM_PREFIX) and unit.in_transaction:
            reason = f"Cannot write to system collection {self} within a transaction."
            raise CommandError(_SYSTEM_IN_TRANSACTION, reason)
        if str(self) in _NEVER_WRITABLE or self.name in _NEVER_WRITABLE:
            raise CommandError(ErrorCode.InvalidNamespace, f"cannot write to {self}")
        if self.name.startswith(SYSTEM_PREFIX) and not _is_writable_system(str(self), self.name):
            raise CommandError(ErrorCode.InvalidNamespace, f"Invalid system namespace: {self}")

    def check_uuid(self, catalog: Catalog) -> None:
        """Refuse a collection with another UUID than the client expects."""
        check_uuid(catalog, self.database, self.name, self.uuid)


def existing_collection(catalog: Catalog, namespace: Namespace) -> Collection | None:
    """The collection that a statement writes to; None if it does not exist.

    Raises for views, internal collections and reserved names.
    """
    ns, name = str(namespace), namespace.name
    collection = catalog.collection(ns)
    if collection is None and catalog.view(ns) is not None:
        reason = f"Namespace {ns} is a view, not a collection"
        raise CommandError(ErrorCode.CommandNotSupportedOnView, reason)
    is_reserved = name.startswith(SYSTEM_PREFIX) and not _is_writable_system(ns, name)
    if is_reserved or (collection is not None and collection.is_internal):
        raise CommandError(ErrorCode.InvalidNamespace, f"cannot write to '{ns}'")
    return collection


def check_in_transaction(collection: Collection, *, removes: bool = False) -> None:
    """Refuse collections that a transaction cannot write to.

    ``removes`` is for deletes, not for a findAndModify that removes.
    """
    if collection.is_capped and removes:
        reason = f"Cannot remove from a capped collection in a multi-document transaction: {collection.ns}"
        raise CommandError(ErrorCode.IllegalOperation, reason)
    if collection.is_capped:
        reason = (
            f"Collection '{collection.ns}' is a capped collection. Writes in transactions are not allowed "
            "on capped collections."
        )
        raise CommandError(ErrorCode.OperationNotSupportedInTransaction, reason)
    if collection.is_timeseries:
        reason = f"Cannot write to a time-series collection in a multi-document transaction: {collection.ns}"
        raise CommandError(ErrorCode.OperationNotSupportedInTransaction, reason)


def new_collection(unit: UnitOfWork, namespace: Namespace) -> Collection:
    """Create the collection that a document is inserted into."""
    check_new_collection(unit.catalog, namespace.database, namespace.name)
    return unit.create_collection(namespace.database, namespace.name)


def _is_writable_system(ns: str, name: str) -> bool:
    return ns in _WRITABLE_SYSTEM or name.startswith(_WRITABLE_SYSTEM_ANYWHERE)
