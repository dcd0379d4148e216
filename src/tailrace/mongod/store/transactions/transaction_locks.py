"""The locks of one open transaction, and its write conflicts.

Locks are taken in a job of the writer, which sees the newest documents and all locks. Taking one fails if
another transaction has it, or if the newest state differs from the snapshot. A failure ends the transaction,
even if a statement handles the error as its own; so it is stored here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.indexes.duplicate_key import duplicate_key
from tailrace.mongod.store.reader import Snapshot, TableReader
from tailrace.mongod.store.transactions.locks import Holder, name_key
from tailrace.mongod.store.transactions.overlay import Overlay
from tailrace.mongod.store.transactions.transaction_log import TRANSIENT
from tailrace.mongod.store.write_unit import WriteUnit

_CONFLICT: Final = (
    "WriteConflict error: this operation conflicted with another operation. "
    "Please retry your operation or multi-document transaction."
)


class TransactionLocks:
    """The locks of the transaction ``holder``, which reads ``snapshot``."""

    def __init__(self, holder: Holder, snapshot: Snapshot) -> None:
        self._holder = holder
        self._snapshot = snapshot
        self._writer: WriteUnit | None = None
        self.created: dict[bytes, None] = {}
        """UUIDs of collections that the transaction has created: others cannot see their contents"""
        self.failure: CommandError | None = None
        """The conflict that has ended the transaction"""

    @contextmanager
    def against(self, writer: WriteUnit) -> Iterator[None]:
        """Compare with the state of this writer, for the duration of a job."""
        self._writer = writer
        try:
            yield
        finally:
            self._writer = None

    def undo(self, catalog: Catalog) -> None:
        """Forget the failure, and collections that are no longer in the catalog; locks stay."""
        self.created = {uuid: None for uuid in self.created if catalog.by_uuid(uuid) is not None}
        self.failure = None

    @property
    def current(self) -> WriteUnit:
        """The newest state; only during a job."""
        if self._writer is None:
            raise RuntimeError("a transaction changes something outside of `write`")
        return self._writer

    def lock_name(self, collection: Collection) -> None:
        """Lock the name of a collection that the transaction creates."""
        self._lock(name_key(collection.ns))
        catalog = self.current.catalog
        if catalog.collection(collection.ns) is not None or catalog.view(collection.ns) is not None:
            raise self._conflicting(f"{collection.ns} has been created")
        self.created[collection.uuid] = None

    def use_collection(self, collection: Collection) -> None:
        """Keep a collection from being changed or dropped; it must not have changed since the snapshot."""
        if collection.uuid in self.created:
            return
        newest = self.current.catalog.by_uuid(collection.uuid)
        if newest is not self._snapshot.known(collection.uuid):
            raise self._conflicting(f"{collection.ns} has been changed or dropped")
        locks = self.current.locks
        if locks.is_wanted(collection.prefix):
            raise self._failing(
                ErrorCode.LockTimeout,
                f"Unable to use {collection.ns}, because a change of the collection itself waits for it.",
            )
        locks.use(collection.prefix, self._holder)

    def lock_record(self, overlay: Overlay, key: bytes) -> None:
        """Lock a record that has not changed since the snapshot."""
        collection = overlay.collection
        if key in overlay.records or collection.uuid in self.created:
            return
        self._lock(collection.prefix + key)
        if self.current.record(collection, key) != self._snapshot.record(collection, key):
            raise self._conflicting(f"a document of {collection.ns} has been changed")

    def lock_new_keys(self, overlay: Overlay, keys: list[tuple[Index, bytes]], document: bytes) -> None:
        """Lock the keys that a document adds to unique indexes; DuplicateKey if one is taken."""
        self.lock_keys(overlay.collection, keys)
        for index, key in keys:
            there = _listed(self._snapshot, overlay.collection, index, key)
            if overlay.lists(index, key) or any(record not in overlay.records for record in there):
                raise duplicate_key(overlay.collection, index.spec, document, key)

    def lock_keys(self, collection: Collection, keys: list[tuple[Index, bytes]]) -> None:
        """Lock keys of unique indexes, whose records must be those of the snapshot."""
        if collection.uuid in self.created:
            return
        for index, key in keys:
            self._lock(index.prefix + key)
            there = _listed(self._snapshot, collection, index, key)
            if _listed(self.current, collection, index, key) != there:
                raise self._conflicting(f"the index {index.name} of {collection.ns} has been changed")

    def _lock(self, key: bytes) -> None:
        locks = self.current.locks
        if locks.holder(key) not in (None, self._holder):
            raise self._conflicting("another transaction is changing the same")
        locks.lock(key, self._holder)

    def _conflicting(self, reason: str) -> CommandError:
        return self._failing(ErrorCode.WriteConflict, f"{_CONFLICT} ({reason})")

    def _failing(self, code: ErrorCode, reason: str) -> CommandError:
        self.failure = CommandError(code, reason, [TRANSIENT])
        return self.failure


def _listed(reader: TableReader, collection: Collection, index: Index, key: bytes) -> list[bytes]:
    """The records with a key: at most one in a unique index, maybe several in one with `prepareUnique`."""
    if index.unique:
        found = reader.record_key_at(collection, index, key)
        return [] if found is None else [found]
    return [record for _, record in reader.index_entries(collection, index, key, key)]
