"""One atomic change of the store: documents, indexes, counters, pre-images and the oplog move together.

A job of the writer gets a `WriteUnit`. What it inserts, updates and deletes is logged in the order it
happens. Consecutive inserts into one collection become one vectored entry, and so do the deletes of one
statement, as the oplog format says; a group ends when something else is logged, when it is full, and with the
unit.
"""

from collections.abc import Sequence
from typing import Final

from bson import Binary, DatetimeMS, Int64

from tailrace.bsonio import documents
from tailrace.bsonio import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.model.cluster_time import to_timestamp
from tailrace.model.entry_bytes import APPLIED_SEPARATELY, Operation, entry_around
from tailrace.model.oplog_entry import OpTime
from tailrace.store.catalog import ID_INDEX, PRE_IMAGES_NS, Catalog, Collection, Index
from tailrace.store.clock import ClusterClock
from tailrace.store.duplicate_key import duplicate_key
from tailrace.store.id_keys import document_key, id_key_of
from tailrace.store.index_keys import index_keys
from tailrace.store.locks import Blocked, LockTable, name_key
from tailrace.store.operation_group import OperationGroup
from tailrace.store.reader import TableReader, multikey_mark
from tailrace.store.sessions import SessionWrites, session_key
from tailrace.store.tables import COUNT, TIME, Tables, Transaction, mark_of, pack_ident, pack_time
from tailrace.store.unit import Unit

OPLOG_IDENT: Final = 1
PRE_IMAGES_IDENT: Final = 2
FIRST_IDENT: Final = 16
_TABLES_WITH_GARBAGE: Final = ("records", "index")


class WriteState:
    """What the units of one LMDB transaction share; published when it is committed."""

    def __init__(
        self,
        tables: Tables,
        transaction: Transaction,
        catalog: Catalog,
        clock: ClusterClock,
        term: int,
        locks: LockTable,
        next_keys: dict[int, int],
    ) -> None:
        self.tables = tables
        self.transaction = transaction
        self.catalog = catalog
        self.clock = clock
        self.term = term
        self.locks = locks
        self.next_keys = next_keys
        self.entries: list[tuple[int, bytes]] = []
        self.truncated_through = 0
        """Cluster time of the newest entry that was removed from the oplog"""
        self.changes = 0
        """How often something was put or deleted: tells whether a job that failed had changed anything"""
        self.has_garbage = False
        """Whether something was left to be removed in the background"""


class WriteUnit(TableReader, Unit):
    """One job's changes."""

    def __init__(self, state: WriteState) -> None:
        super().__init__(state.tables, state.transaction)
        self._state = state
        self.wall = state.clock.wall.milliseconds()
        """Milliseconds since 1970, the same for all of this unit's entries"""
        self.session: SessionWrites | None = None
        """Set by `open_session` for retryable writes: entries then carry the session's fields"""
        self._group: OperationGroup | None = None
        self._counts: dict[int, list[int]] = {}

    # -- what others need ---------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The collections as of now."""
        return self._state.catalog

    @property
    def clock(self) -> ClusterClock:
        """Where cluster times come from."""
        return self._state.clock

    @property
    def term(self) -> int:
        """The primary's term."""
        return self._state.term

    @property
    def locks(self) -> LockTable:
        """What open transactions have written."""
        return self._state.locks

    def count(self, collection: Collection) -> tuple[int, int]:
        """How many records there are with this unit's changes, and their bytes."""
        number, size = self._count_of(collection.ident)
        more = self._counts.get(collection.ident, (0, 0))
        return number + more[0], size + more[1]

    # -- documents ----------------------------------------------------------------------------------

    def insert(self, collection: Collection, document: bytes, *, stmt_id: int | None = None) -> bytes:
        """Store and log a document that has its `_id`; returns its record key.

        Raises DuplicateKey (11000) before anything is changed.
        """
        key = self.put_new(collection, document)
        if collection.is_logged:
            self._group_for("i", collection, len(document)).add_insert(
                document, document_key(document), stmt_id
            )
        return key

    def update(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        after: bytes,
        o: bytes,
        *,
        stmt_id: int | None = None,
        retry_image: str | None = None,
    ) -> None:
        """Replace a record; ``o`` is what is logged: the whole new document, or `{$v: 2, diff}`.

        ``retry_image`` is `preImage` or `postImage` for a retryable findAndModify, whose image is kept.
        """
        self.put_changed(collection, key, before, after)
        if collection.is_logged:
            operation = Operation(
                "u",
                collection.ns,
                o,
                collection.uuid,
                document_key(before),
                is_timeseries=collection.is_timeseries,
                needs_retry_image=retry_image,
                statement_ids=() if stmt_id is None else (stmt_id,),
            )
            self._log_change(collection, operation, before, before if retry_image == "preImage" else after)

    def delete(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        *,
        stmt_id: int | None = None,
        retry_image: str | None = None,
        grouped: bool = False,
    ) -> None:
        """Remove a record; ``grouped`` for the deletes of one statement, which share entries."""
        self.put_removed(collection, key, before)
        if not collection.is_logged:
            return
        if grouped:
            # Pre-images wait for the entry of their group, so they count: a group must not fill the memory.
            group = self._group_for("d", collection, len(before) if collection.records_images else 0)
            pre_image = before if collection.records_images else None
            group.add_delete(document_key(before), stmt_id, pre_image)
            return
        operation = Operation(
            "d",
            collection.ns,
            document_key(before),
            collection.uuid,
            is_timeseries=collection.is_timeseries,
            needs_retry_image=retry_image,
            statement_ids=() if stmt_id is None else (stmt_id,),
        )
        self._log_change(collection, operation, before, before)

    def _log_change(self, collection: Collection, operation: Operation, before: bytes, image: bytes) -> None:
        if operation.needs_retry_image is not None:
            self.clock.tick()  # the slot in front, where a migration would put the image
        ts = self.log(operation, session=self.session)
        if collection.records_images:
            self.put_pre_image(collection, ts, 0, before)
        if operation.needs_retry_image is not None and self.session is not None:
            self._keep_image(self.session, ts, operation.needs_retry_image, image)

    # -- documents without the log: transactions log for themselves ---------------------------------

    def put_new(self, collection: Collection, document: bytes, key: bytes | None = None) -> bytes:
        """Store a document and list it in the indexes; ``key`` is a record key given out before."""
        state = self._state
        by_id = id_key_of(document)
        if by_id is None:
            raise CommandError(ErrorCode.BadValue, f"a document of {collection.ns} has no _id")
        tables, put = state.tables, state.transaction.put
        id_index = collection.id_index
        if id_index is not None and len(collection.indexes) == 1:
            # By far the most documents: one look at the index tells whether the `_id` is new, and enters it.
            listed = id_index.prefix + by_id
            self._check_free(listed)
            if key is None:
                key = self.new_record_key(collection)
            if not put(listed, key, overwrite=False, db=tables.index):
                raise duplicate_key(collection, ID_INDEX, document)
            put(collection.prefix + key, document, db=tables.records)
        else:
            added = self._keys_to_add(collection, document, by_id)
            if key is None:
                key = by_id if collection.is_clustered else self.new_record_key(collection)
            put(collection.prefix + key, document, db=tables.records)
            for index_key, needs_mark in added:
                put(index_key + mark_of(key) if needs_mark else index_key, key, db=tables.index)
        self._add_to_count(collection.ident, 1, len(document))
        return key

    def put_changed(self, collection: Collection, key: bytes, before: bytes, after: bytes) -> None:
        """Replace a record and bring the indexes up to date."""
        state = self._state
        self._check_free(collection.prefix + key)
        gone: list[bytes] = []
        added: list[bytes] = []
        for index in collection.indexes:
            if index.is_id:
                continue
            old, new = index_keys(index, before), index_keys(index, after)
            if old == new:
                continue
            if len(new) > 1:
                self._note_multikey(index)
            for index_key in new:
                if index_key not in old:
                    self._check_unique(collection, index, index_key, after)
                    added.append(self._stored(index, index_key, key))
            gone += [self._stored(index, index_key, key) for index_key in old if index_key not in new]
        # Everything that can fail has not failed: a statement that fails leaves its document as it was.
        for stored in gone:
            state.transaction.delete(stored, db=state.tables.index)
        for stored in added:
            state.transaction.put(stored, key, db=state.tables.index)
        state.transaction.put(collection.prefix + key, after, db=state.tables.records)
        self._add_to_count(collection.ident, 0, len(after) - len(before))

    def put_removed(self, collection: Collection, key: bytes, before: bytes) -> None:
        """Remove a record and its index keys."""
        state = self._state
        self._check_free(collection.prefix + key)
        for index in collection.indexes:
            keys = [id_key_of(before) or b""] if index.is_id else index_keys(index, before)
            for index_key in keys:
                state.transaction.delete(self._stored(index, index_key, key), db=state.tables.index)
        state.transaction.delete(collection.prefix + key, db=state.tables.records)
        self._add_to_count(collection.ident, -1, -len(before))

    def list_in_index(self, collection: Collection, index: Index, key: bytes, document: bytes) -> None:
        """List one stored record in an index that is being built."""
        keys = index_keys(index, document)
        if len(keys) > 1:
            self._note_multikey(index)
        for index_key in keys:
            self._check_unique(collection, index, index_key, document)
            stored = self._stored(index, index_key, key)
            self._state.transaction.put(stored, key, db=self._state.tables.index)
        self._state.changes += 1

    def new_record_key(self, collection: Collection) -> bytes:
        """A key behind all that were given out for this collection."""
        next_keys = self._state.next_keys
        number = next_keys.get(collection.ident)
        if number is None:
            last = next(self.records(collection, reverse=True), None)
            number = 1 if last is None else TIME.unpack(last[0])[0] + 1
        next_keys[collection.ident] = number + 1
        return pack_time(number)

    def _keys_to_add(
        self, collection: Collection, document: bytes, by_id: bytes
    ) -> Sequence[tuple[bytes, bool]]:
        """Index keys of a new document, each with whether it needs the record's mark."""
        if collection.is_clustered:
            self._check_free(collection.prefix + by_id)
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
            self._note_multikey(index)
        return found

    def _note_multikey(self, index: Index) -> None:
        """Remember that a document has several keys: queries read such an index more carefully."""
        if not self.is_multikey(index):
            self.put_meta(multikey_mark(index.ident), b"")

    def _check_unique(self, collection: Collection, index: Index, index_key: bytes, document: bytes) -> None:
        if index.takes_duplicates:
            return
        stored = index.prefix + index_key
        self._check_free(stored)
        if self._is_listed(index, stored):
            raise duplicate_key(collection, index.spec, document, index_key)

    def _is_listed(self, index: Index, stored: bytes) -> bool:
        table = self._state.tables.index
        if index.unique:
            return self._state.transaction.get(stored, db=table) is not None
        with self._state.transaction.cursor(db=table) as cursor:
            return cursor.set_range(stored) and cursor.key().startswith(stored)

    def _check_free(self, key: bytes) -> None:
        """Wait for the transaction that has locked this, if there is one."""
        locks = self._state.locks
        if locks:
            holder = locks.holder(key)
            if holder is not None:
                raise Blocked(holder)

    @staticmethod
    def _stored(index: Index, index_key: bytes, record_key: bytes) -> bytes:
        if index.unique:
            return index.prefix + index_key
        return index.prefix + index_key + mark_of(record_key)

    def _add_to_count(self, ident: int, number: int, size: int) -> None:
        self._state.changes += 1
        counts = self._counts.setdefault(ident, [0, 0])
        counts[0] += number
        counts[1] += size

    # -- pre-images and sessions ----------------------------------------------------------------------

    def put_pre_image(self, collection: Collection, ts: int, index: int, before: bytes) -> None:
        """Keep the document as it was before a change, for streams that show it."""
        key = {"nsUUID": Binary(collection.uuid, 4), "ts": to_timestamp(ts), "applyOpsIndex": Int64(index)}
        head = documents.encode({"_id": key, "operationTime": DatetimeMS(self.wall)})
        image = rawbson.document(rawbson.body(head), rawbson.element(rawbson.DOCUMENT, b"preImage", before))
        stored = collection.uuid + pack_time(ts) + pack_time(index)
        self._state.transaction.put(stored, image, db=self._state.tables.preimages)
        self._add_to_count(PRE_IMAGES_IDENT, 1, len(image))

    def open_session(self, lsid: bytes, txn_number: int) -> SessionWrites:
        """Log what follows as retryable writes of a session; what it wrote before under this number is known.

        Raises TransactionTooOld (225) if the session has gone on to a higher number.
        """
        found = self.session_record(session_key(lsid))
        known = None if found is None else SessionWrites.from_bson(found)
        if known is not None and known.txn_number > txn_number:
            raise CommandError(
                ErrorCode.TransactionTooOld,
                f"the transaction number {txn_number} is older than {known.txn_number}, which this session "
                "has used since",
            )
        if known is None or known.txn_number < txn_number:
            known = SessionWrites(lsid, txn_number)
        self.session = known
        return known

    def put_session(self, session: SessionWrites) -> None:
        """Store where a session stands."""
        key = session_key(session.lsid)
        self._state.transaction.put(key, session.to_bson(self.wall), db=self._state.tables.sessions)
        self._state.changes += 1

    def _keep_image(self, session: SessionWrites, ts: int, kind: str, image: bytes) -> None:
        head = documents.encode(
            {
                "_id": documents.decode(session.lsid),
                "txnNum": Int64(session.txn_number),
                "ts": to_timestamp(ts),
                "imageKind": kind,
                "invalidated": False,
            }
        )
        kept = rawbson.document(rawbson.body(head), rawbson.element(rawbson.DOCUMENT, b"image", image))
        self._state.transaction.put(session_key(session.lsid), kept, db=self._state.tables.images)

    # -- the oplog ------------------------------------------------------------------------------------

    def log(
        self,
        operation: Operation,
        *,
        session: SessionWrites | None = None,
        multi_op_type: int | None = None,
        ts: int | None = None,
    ) -> int:
        """Append an entry and return its cluster time; ``session`` is whose write it is, if that matters."""
        self.end_group()
        return self._append(operation.elements(), session, multi_op_type, ts)

    def _append(
        self, elements: bytes, session: SessionWrites | None, multi_op_type: int | None, ts: int | None
    ) -> int:
        state = self._state
        time = OpTime(state.clock.tick() if ts is None else ts, state.term)
        entry = entry_around(
            elements,
            time,
            self.wall,
            session=b"" if session is None else session.elements,
            previous=None if session is None else session.last,
            multi_op_type=None if session is None else multi_op_type,
        )
        state.transaction.put(pack_time(time.ts), entry, db=state.tables.oplog, append=True)
        state.entries.append((time.ts, entry))
        self._add_to_count(OPLOG_IDENT, 1, len(entry))
        if session is not None:
            session.last = time
            session.changed = True
        return time.ts

    def _group_for(self, op: str, collection: Collection, size: int) -> OperationGroup:
        """The group that takes a document of that size; one that does not is logged."""
        group = self._group
        if group is None or not group.takes(op, collection, size):
            self.end_group()
            group = self._group = OperationGroup(op, collection)
        return group

    def end_group(self) -> None:
        """Log the operations collected so far."""
        group, self._group = self._group, None
        if group is None:
            return
        multi_op_type = APPLIED_SEPARATELY if group.is_vectored else None
        ts = self._append(group.elements(), self.session, multi_op_type, None)
        for index, pre_image in enumerate(group.pre_images()):
            self.put_pre_image(group.collection, ts, index, pre_image)

    # -- the catalog ----------------------------------------------------------------------------------

    def new_ident(self) -> int:
        """A number that no collection or index has ever had."""
        found = self.meta("nextIdent")
        ident = FIRST_IDENT if found is None else TIME.unpack(found)[0]
        self.put_meta("nextIdent", pack_time(ident + 1))
        return int(ident)

    def put_collection(self, collection: Collection) -> None:
        """Enter a new or changed collection into the catalog; nothing is logged."""
        state = self._state
        self.end_group()
        # An open transaction may have made a collection of this name, or rely on this one as it is.
        self._check_free(name_key(collection.ns))
        user = state.locks.user(collection.prefix) if state.locks else None
        if user is not None:
            raise Blocked(user, collection.prefix)
        state.transaction.put(collection.ns.encode(), collection.to_bson(), db=state.tables.catalog)
        self.publish(state.catalog.with_collection(collection))

    def remove_collection(self, collection: Collection, *, keep_records: bool = False) -> None:
        """Take a collection out of the catalog; nothing is logged. A rename keeps its records."""
        state = self._state
        self.end_group()
        if not keep_records:
            user = state.locks.user(collection.prefix) if state.locks else None
            if user is not None:
                raise Blocked(user, collection.prefix)
        state.transaction.delete(collection.ns.encode(), db=state.tables.catalog)
        self.publish(state.catalog.without_collection(collection.ns))
        if not keep_records:
            self.discard("records", collection.ident)
            for index in collection.indexes:
                self.discard("index", index.ident)
            state.transaction.delete(pack_ident(collection.ident), db=state.tables.counts)
            self._counts.pop(collection.ident, None)

    def publish(self, catalog: Catalog) -> None:
        """Replace the catalog, for this unit now and for everybody once it is committed."""
        self._state.catalog = catalog
        self._state.changes += 1

    def discard(self, table: str, ident: int) -> None:
        """Leave records or index keys to be removed in the background."""
        if table == "index":
            self.put_meta(multikey_mark(ident), None)
        number = _TABLES_WITH_GARBAGE.index(table)
        self._state.transaction.put(bytes([number]) + pack_ident(ident), b"", db=self._state.tables.garbage)
        self._state.has_garbage = True
        self._state.changes += 1

    def put_meta(self, name: str, value: bytes | None) -> None:
        """Store a fact about the whole store, or remove it."""
        state = self._state
        if value is None:
            state.transaction.delete(name.encode(), db=state.tables.meta)
        else:
            state.transaction.put(name.encode(), value, db=state.tables.meta)
        state.changes += 1

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Log what is still to be logged, store counters and the session."""
        self.end_group()
        state = self._state
        if self.session is not None and self.session.changed:
            self.put_session(self.session)
            self.session.changed = False
        counts, self._counts = self._counts, {}
        for ident, (number, size) in counts.items():
            old_number, old_size = self._count_of(ident)
            stored = COUNT.pack(old_number + number, old_size + size)
            state.transaction.put(pack_ident(ident), stored, db=state.tables.counts)


__all__ = ["PRE_IMAGES_NS", "WriteState", "WriteUnit", "document_key"]
