"""Change the tables, so that records, index keys and counters agree. Nothing is logged here.

Transactions use this when they commit, and log their changes themselves; all other writes use
`write_unit.py`, which logs each change.
"""

from collections.abc import Sequence
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import ID_INDEX, Catalog, Collection, Index, IndexBuild
from tailrace.mongod.store.catalog_rules import NEWEST_RULES, CatalogRules
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.indexes.duplicate_key import duplicate_key
from tailrace.mongod.store.indexes.index_keys import all_index_keys, index_keys, stored_key
from tailrace.mongod.store.job_pace import JobShare
from tailrace.mongod.store.operation_group import MAX_GROUP
from tailrace.mongod.store.past.undo import CHANGED, INSERTED, REMOVED, UndoWriter
from tailrace.mongod.store.reader import TableReader, multikey_mark
from tailrace.mongod.store.tables import COUNT, TIME, Tables, Transaction, pack_ident, pack_time, record_mark
from tailrace.mongod.store.transactions.locks import Blocked, Holder, LockTable

OPLOG_IDENT: Final = 1
PRE_IMAGES_IDENT: Final = 2


class WriteState:
    """The state shared by the units of one LMDB transaction; published when it is committed."""

    def __init__(
        self,
        tables: Tables,
        transaction: Transaction,
        catalog: Catalog,
        clock: ClusterClock,
        term: int,
        locks: LockTable,
        next_keys: dict[int, int],
        share: JobShare,
        *,
        has_garbage: bool,
        logs_batches: bool = True,
        most_inserts: int = MAX_GROUP,
        rules: CatalogRules = NEWEST_RULES,
    ) -> None:
        self.tables = tables
        self.transaction = transaction
        self.catalog = catalog
        self.clock = clock
        self.term = term
        self.locks = locks
        self.next_keys = next_keys
        self.share = share
        self.entries: list[tuple[int, bytes]] = []
        self.truncated_through = 0
        """Cluster time of the newest entry that was removed from the oplog"""
        self.changes = 0
        """Number of puts and deletes: shows whether a job that failed has changed anything"""
        self.logs_batches = logs_batches
        self.most_inserts = most_inserts
        self.rules = rules
        self.has_garbage = has_garbage
        """Whether dropped collections or indexes are still to be removed in the background"""


class TableWriter(TableReader):
    """Reads and changes the tables within one LMDB transaction."""

    def __init__(self, state: WriteState) -> None:
        super().__init__(state.tables, state.transaction)
        self.state = state
        """For what is stored besides documents and indexes: the oplog, the images, the term"""
        self.on_behalf_of: Holder | None = None
        """The transaction whose commit this is: its own locks do not block it"""
        self.undo = UndoWriter(state.tables, state.transaction)
        """What earlier states need: a change is noted here, and gets its time when it is logged"""
        self._counts: dict[int, list[int]] = {}

    @property
    def catalog(self) -> Catalog:
        return self.state.catalog

    def count(self, collection: Collection) -> tuple[int, int]:
        """The number of records, including this unit's changes, and their size in bytes."""
        number, size = self.count_of(collection.ident)
        more = self._counts.get(collection.ident, (0, 0))
        return number + more[0], size + more[1]

    def put_new(self, collection: Collection, document: bytes, key: bytes | None = None) -> bytes:
        """Store a document and its index keys; ``key`` is a record key that was reserved before."""
        state = self.state
        by_id = collection.id_key(document)
        tables, put = state.tables, state.transaction.put
        id_index = collection.id_index
        if by_id is None:
            if id_index is not None or collection.is_clustered:
                raise CommandError(ErrorCode.BadValue, f"a document of {collection.ns} has no _id")
            by_id = b""
        if id_index is not None and len(collection.indexes) == 1:
            # By far the most documents: one put both checks that the `_id` is new and enters it.
            listed = id_index.prefix + by_id
            self._check_unlocked(listed)
            if key is None:
                key = self.new_record_key(collection)
            if not put(listed, key, overwrite=False, db=tables.index):
                raise duplicate_key(collection, id_index.spec, document)
            put(collection.prefix + key, document, db=tables.records)
        else:
            added = self._keys_to_add(collection, document, by_id)
            if key is None:
                key = by_id if collection.is_clustered else self.new_record_key(collection)
            put(collection.prefix + key, document, db=tables.records)
            for index_key, needs_mark in added:
                put(index_key + record_mark(key) if needs_mark else index_key, key, db=tables.index)
        if collection.build is not None:
            self._change_built(collection.build, key, None, document)
        self.add_to_count(collection.ident, 1, len(document))
        if collection.is_logged:
            self.undo.noted.append(
                (collection.prefix, key, b"" if collection.is_clustered else None, INSERTED)
            )
        return key

    def put_changed(self, collection: Collection, key: bytes, before: bytes, after: bytes) -> None:
        """Replace a record and its index keys."""
        state = self.state
        self._check_unlocked(collection.prefix + key)
        gone: list[bytes] = []
        added: list[bytes] = []
        for index in collection.indexes:
            if index.is_id:
                continue
            old, new = index_keys(index, before), index_keys(index, after)
            if old == new:
                continue
            if len(new) > 1:
                self.note_multikey(index)
            for index_key in new:
                if index_key not in old:
                    self._check_unique(collection, index, index_key, after)
                    added.append(self._stored(index, index_key, key))
            gone += [self._stored(index, index_key, key) for index_key in old if index_key not in new]
        # All checks come before the first change: a statement that fails leaves its document unchanged.
        for stored in gone:
            state.transaction.delete(stored, db=state.tables.index)
        for stored in added:
            state.transaction.put(stored, key, db=state.tables.index)
        state.transaction.put(collection.prefix + key, after, db=state.tables.records)
        if collection.build is not None:
            self._change_built(collection.build, key, before, after)
        self.add_to_count(collection.ident, 0, len(after) - len(before))
        if collection.is_logged:
            self.undo.noted.append((collection.prefix, key, before, CHANGED))

    def put_removed(self, collection: Collection, key: bytes, before: bytes) -> None:
        """Remove a record and its index keys."""
        state = self.state
        self._check_unlocked(collection.prefix + key)
        for index in collection.indexes:
            for index_key in all_index_keys(index, before):
                state.transaction.delete(self._stored(index, index_key, key), db=state.tables.index)
        state.transaction.delete(collection.prefix + key, db=state.tables.records)
        if collection.build is not None:
            self._change_built(collection.build, key, before, None)
        self.add_to_count(collection.ident, -1, -len(before))
        if collection.is_logged:
            self.undo.noted.append((collection.prefix, key, before, REMOVED))

    def add_to_index(self, collection: Collection, index: Index, key: bytes, document: bytes) -> None:
        """Add the keys of a stored record to a new index, which nobody uses yet."""
        keys = all_index_keys(index, document)
        if len(keys) > 1:
            self.note_multikey(index)
        for index_key in keys:
            self._check_unique(collection, index, index_key, document)
            stored = self._stored(index, index_key, key)
            self.state.transaction.put(stored, key, db=self.state.tables.index)
        self.state.changes += 1

    # -- indexes that are being built -----------------------------------------------------------------------

    def _change_built(self, build: IndexBuild, key: bytes, before: bytes | None, after: bytes | None) -> None:
        """Keep indexes that are being built right for a changed record."""
        for index in build.indexes:
            old, new = self._keys_built(build, index, key, before), self._keys_built(build, index, key, after)
            for index_key in old:
                stored = self._stored(index, index_key, key)
                # In a unique index it may be that of another record.
                if index_key not in new and self._built(stored) == key:
                    self.state.transaction.delete(stored, db=self.state.tables.index)
            for index_key in new:
                self.enter_built(build, index, index_key, key)
            if len(new) > 1:
                self.note_multikey(index)

    @staticmethod
    def _keys_built(build: IndexBuild, index: Index, key: bytes, document: bytes | None) -> list[bytes]:
        try:
            return [] if document is None else index_keys(index, document)
        except CommandError:
            build.unclear.add(key)
            return []

    def _built(self, stored: bytes) -> bytes | None:
        return self.state.transaction.get(stored, db=self.state.tables.index)

    def enter_built(self, build: IndexBuild, index: Index, index_key: bytes, key: bytes) -> bool:
        """Enter a record into an index that is being built; False if it is unique and has another one there.

        Then the record is unclear.
        """
        stored = self._stored(index, index_key, key)
        self.state.changes += 1
        if not index.allows_duplicates and not index.unique:
            with self.state.transaction.cursor(db=self.state.tables.index) as cursor:
                listed = index.prefix + index_key
                if cursor.set_range(listed) and cursor.key().startswith(listed) and cursor.key() != stored:
                    build.unclear.add(key)
                    return False
        is_new = self.state.transaction.put(stored, key, overwrite=False, db=self.state.tables.index)
        if is_new or self._built(stored) == key:
            return True
        build.unclear.add(key)
        return False

    def new_record_key(self, collection: Collection) -> bytes:
        """A record key after all that were returned for this collection before."""
        next_keys = self.state.next_keys
        number = next_keys.get(collection.ident)
        if number is None:
            last = next(self.records(collection, reverse=True), None)
            number = 1 if last is None else TIME.unpack(last[0])[0] + 1
        next_keys[collection.ident] = number + 1
        return pack_time(number)

    def _keys_to_add(
        self, collection: Collection, document: bytes, by_id: bytes
    ) -> Sequence[tuple[bytes, bool]]:
        """The index keys of a new document, each with whether it needs the record's mark."""
        if collection.is_clustered:
            self._check_unlocked(collection.prefix + by_id)
            if self.record(collection, by_id) is not None:
                raise duplicate_key(collection, ID_INDEX, document)
        found: list[tuple[bytes, bool]] = []
        multikey: list[Index] = []
        for index in collection.indexes:
            keys = [by_id] if index.is_id else index_keys(index, document)
            for index_key in keys:
                self._check_unique(collection, index, index_key, document)
                found.append((index.prefix + index_key, not index.unique))
            if len(keys) > 1:
                multikey.append(index)
        for index in multikey:
            self.note_multikey(index)
        return found

    def note_multikey(self, index: Index) -> None:
        """Note that a document has several keys in an index: queries read such an index differently."""
        if not self.is_multikey(index):
            self.put_meta(multikey_mark(index.ident), b"")

    def _check_unique(self, collection: Collection, index: Index, index_key: bytes, document: bytes) -> None:
        if index.allows_duplicates:
            return
        stored = index.prefix + index_key
        self._check_unlocked(stored)
        if self._is_listed(index, stored):
            raise duplicate_key(collection, index.spec, document, index_key)

    def _is_listed(self, index: Index, stored: bytes) -> bool:
        table = self.state.tables.index
        if index.unique:
            return self.state.transaction.get(stored, db=table) is not None
        with self.state.transaction.cursor(db=table) as cursor:
            return cursor.set_range(stored) and cursor.key().startswith(stored)

    def _check_unlocked(self, key: bytes) -> None:
        """Raise `Blocked` if another transaction has locked this key."""
        locks = self.state.locks
        if locks:
            holder = locks.holder(key)
            if holder is not None and holder is not self.on_behalf_of:
                raise Blocked(holder)

    @staticmethod
    def _stored(index: Index, index_key: bytes, record_key: bytes) -> bytes:
        return index.prefix + stored_key(index, index_key, record_key)

    def add_to_count(self, ident: int, number: int, size: int) -> None:
        """Add to the counters of a collection; negative for removals."""
        self.state.changes += 1
        counts = self._counts.setdefault(ident, [0, 0])
        counts[0] += number
        counts[1] += size

    def put_counts(self) -> None:
        counts, self._counts = self._counts, {}
        for ident, (number, size) in counts.items():
            old_number, old_size = self.count_of(ident)
            stored = COUNT.pack(old_number + number, old_size + size)
            self.state.transaction.put(pack_ident(ident), stored, db=self.state.tables.counts)

    def remove_count(self, collection: Collection) -> None:
        """Remove the counters of a dropped collection."""
        self.state.transaction.delete(pack_ident(collection.ident), db=self.state.tables.counts)
        self._counts.pop(collection.ident, None)

    def put_meta(self, name: str, value: bytes | None) -> None:
        """Set a value in the table `meta`; None removes it."""
        state = self.state
        if value is None:
            state.transaction.delete(name.encode(), db=state.tables.meta)
        else:
            state.transaction.put(name.encode(), value, db=state.tables.meta)
        state.changes += 1
