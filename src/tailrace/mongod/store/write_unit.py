"""One atomic change of the store: documents, indexes, counters, pre-images and oplog entries.

A job of the writer gets a `WriteUnit`. Inserts, updates and deletes are logged in the order they happen.
Consecutive inserts into one collection become one vectored entry, and so do the deletes of one statement, as
MongoDB writes them. A group ends when something else is logged, when it is full, and at the end of the unit.
"""

from collections.abc import Callable
from typing import Final

from bson import DatetimeMS, Int64

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_bytes import APPLIED_SEPARATELY, Operation, entry_around
from tailrace.events.oplog_entry import OpTime
from tailrace.events.pre_image_key import image_field, pre_image_identifier, pre_image_key
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.operation_group import MAX_GROUP, OperationGroup
from tailrace.mongod.store.past.undo import forget
from tailrace.mongod.store.reader import multikey_mark
from tailrace.mongod.store.table_writer import OPLOG_IDENT, PRE_IMAGES_IDENT, TableWriter, WriteState
from tailrace.mongod.store.tables import TIME, pack_ident, pack_time
from tailrace.mongod.store.transactions.locks import Blocked, LockTable, name_key
from tailrace.mongod.store.transactions.sessions import (
    SessionWrites,
    is_part_of_write,
    keys_of_older_parts,
    session_key,
)
from tailrace.mongod.store.unit_of_work import UnitOfWork

FIRST_IDENT: Final = 16
_STEPS_BETWEEN_LOOKS: Final = 16
"""Operations of one entry between two looks at the clock, which take a tenth of the time of an insert"""
_TABLES_WITH_GARBAGE: Final = ("records", "index")


class WriteUnit(TableWriter, UnitOfWork):
    """The changes of one job."""

    def __init__(self, state: WriteState) -> None:
        super().__init__(state)
        self.wall = state.clock.wall.milliseconds()
        """Milliseconds since 1970, the same for all of this unit's entries"""
        self.session: SessionWrites | None = None
        """Set by `open_session` for retryable writes: entries then contain the session's fields"""
        self.moves_data = False
        """Whether the next changes only move documents between shards: their entries say `fromMigrate`"""
        self.before_statement: Callable[[int], None] | None = None
        """Called with the id of a retryable statement before its change; may raise to refuse it."""
        self.steps_left: int | None = None
        """After how many steps it is due, because no more of them were rehearsed"""
        self._group: OperationGroup | None = None

    @property
    def clock(self) -> ClusterClock:
        return self.state.clock

    @property
    def rules(self) -> CatalogRules:
        return self.state.rules

    @property
    def term(self) -> int:
        return self.state.term

    @property
    def locks(self) -> LockTable:
        """The locks of open transactions."""
        return self.state.locks

    # -- documents ----------------------------------------------------------------------------------

    def insert(self, collection: Collection, document: bytes, *, stmt_id: int | None = None) -> bytes:
        """Store and log a document that has its `_id`; returns its record key.

        Raises DuplicateKey (11000) before anything is changed.
        """
        if self.before_statement is not None and stmt_id is not None:
            self.before_statement(stmt_id)
        key = self.put_new(collection, document)
        if collection.is_logged:
            group = self._group_for("i", collection, len(document))
            if group.add_insert(document, collection.document_key(document), stmt_id):
                self.end_group()
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

        ``retry_image`` is `preImage` or `postImage` for a retryable findAndModify, whose image is stored.
        """
        if self.before_statement is not None and stmt_id is not None:
            self.before_statement(stmt_id)
        self.put_changed(collection, key, before, after)
        if collection.is_logged:
            operation = Operation(
                "u",
                collection.ns,
                o,
                collection.uuid,
                collection.document_key(before),
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
        """Remove a record; with ``grouped``, the deletes of one statement share entries."""
        if self.before_statement is not None and stmt_id is not None:
            self.before_statement(stmt_id)
        self.put_removed(collection, key, before)
        if not collection.is_logged:
            return
        if grouped:
            # Pre-images are held until the group is logged, so they count towards its size.
            pre_image = before if collection.records_images and not self.moves_data else None
            group = self._group_for("d", collection, 0 if pre_image is None else len(pre_image))
            if group.add_delete(collection.document_key(before), stmt_id, pre_image):
                self.end_group()
            return
        operation = Operation(
            "d",
            collection.ns,
            collection.document_key(before),
            collection.uuid,
            needs_retry_image=retry_image,
            statement_ids=() if stmt_id is None else (stmt_id,),
        )
        self._log_change(collection, operation, before, before)

    def _log_change(self, collection: Collection, operation: Operation, before: bytes, image: bytes) -> None:
        if operation.needs_retry_image is not None:
            self.clock.tick()  # the slot before the entry, where a migration would put the image
        # A change without a statement id, such as making room in a capped collection, is not the session's.
        ts = self.log(operation, session=self.session if operation.statement_ids else None)
        if collection.records_images and not self.moves_data:
            self.put_pre_image(collection, ts, 0, before)
        if operation.needs_retry_image is not None and self.session is not None:
            self.put_retry_image(self.session, ts, operation.needs_retry_image, image)

    # -- pre-images and sessions ----------------------------------------------------------------------

    def put_pre_image(
        self, collection: Collection, ts: int, index: int, before: bytes, *, wall: int | None = None
    ) -> None:
        """Store the document before a change, for streams that show it.

        ``wall`` is that of the change's entry, if this unit did not write it.
        """
        key = pre_image_identifier(collection.uuid, ts, index)
        time = DatetimeMS(self.wall if wall is None else wall)
        head = documents.encode({"_id": key, "operationTime": time})
        image = rawbson.document(rawbson.body(head), image_field(before))
        stored = pre_image_key(collection.uuid, ts, index)
        self.state.transaction.put(stored, image, db=self.state.tables.preimages)
        self.add_to_count(PRE_IMAGES_IDENT, 1, len(image))

    def open_session(self, lsid: bytes, txn_number: int) -> SessionWrites:
        """Log the next changes as retryable writes of a session; returns its writes under this number so far.

        Raises TransactionTooOld (225) if the session has used a higher number since.
        """
        self.session = SessionWrites.under(lsid, txn_number, self.session_record(session_key(lsid)))
        return self.session

    def put_session(self, session: SessionWrites) -> None:
        """Store the record of a session."""
        state = self.state
        key = session_key(session.lsid)
        state.transaction.put(key, session.to_bson(self.wall), db=state.tables.sessions)
        state.changes += 1
        if is_part_of_write(session.lsid):
            for older in keys_of_older_parts(self, session.lsid):
                state.transaction.delete(older, db=state.tables.sessions)
                state.transaction.delete(older, db=state.tables.images)

    def put_prepared(self, key: bytes, record: bytes | None) -> None:
        """Store what the prepared transaction of a session needs to commit or abort; None if it has ended."""
        state = self.state
        if record is None:
            state.transaction.delete(key, db=state.tables.prepared)
        else:
            state.transaction.put(key, record, db=state.tables.prepared)
        state.changes += 1

    def put_retry_image(self, session: SessionWrites, ts: int, kind: str, image: bytes) -> None:
        """Store the image that a retryable findAndModify returned, for a retry."""
        head = documents.encode(
            {
                "_id": documents.decode(session.lsid),
                "txnNum": Int64(session.txn_number),
                "ts": to_timestamp(ts),
                "imageKind": kind,
                "invalidated": False,
            }
        )
        record = rawbson.document(rawbson.body(head), rawbson.element(rawbson.DOCUMENT, b"image", image))
        self.state.transaction.put(session_key(session.lsid), record, db=self.state.tables.images)

    # -- the oplog ------------------------------------------------------------------------------------

    def log(
        self,
        operation: Operation,
        *,
        session: SessionWrites | None = None,
        multi_op_type: int | None = None,
        ts: int | None = None,
    ) -> int:
        """Append an entry and return its cluster time; ``session`` for a retryable write."""
        self.end_group()
        if self.moves_data:
            operation.from_migrate = True
        time = self._append(operation.elements(), session, multi_op_type, ts)
        self.undo.all_at(time)
        return time

    def _append(
        self, elements: bytes, session: SessionWrites | None, multi_op_type: int | None, ts: int | None
    ) -> int:
        state = self.state
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
        self.add_to_count(OPLOG_IDENT, 1, len(entry))
        if session is not None:
            session.last = time
            session.changed = True
        return time.ts

    def _group_for(self, op: str, collection: Collection, size: int) -> OperationGroup:
        """The group for a document of that size; logs the present group if it cannot take the document."""
        group = self._group
        if group is None or not group.can_add(op, collection, size):
            self.end_group()
            most = self.state.most_inserts if op == "i" else MAX_GROUP
            group = self._group = OperationGroup(
                op, collection, most if self.state.logs_batches else 1, from_migrate=self.moves_data
            )
        return group

    def end_group(self) -> None:
        """Log the operations collected so far."""
        group, self._group = self._group, None
        if group is None:
            return
        multi_op_type = APPLIED_SEPARATELY if group.is_vectored else None
        ts = self._append(group.elements(), self.session, multi_op_type, None)
        self.undo.first_at(ts, len(group))
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
        state = self.state
        self.end_group()
        # An open transaction may have created a collection of this name, or use this one.
        self._check_unlocked(name_key(collection.ns))
        self.check_unused(collection)
        state.transaction.put(collection.ns.encode(), collection.to_bson(), db=state.tables.catalog)
        self._note_appearance(collection)
        self.publish(state.catalog.with_collection(collection))

    def put_build(self, collection: Collection) -> None:
        """Enter a collection of which only the indexes that are being built have changed."""
        state = self.state
        self.end_group()
        state.transaction.put(collection.ns.encode(), collection.to_bson(), db=state.tables.catalog)
        self.publish(state.catalog.with_collection(collection))

    def _note_appearance(self, collection: Collection) -> None:
        """Note for readers of earlier states that a collection or its indexes are new."""
        if collection.is_internal:
            return
        known = self.state.catalog.collection(collection.ns)
        if known is None or known.ident != collection.ident:
            self.undo.appeared(collection.prefix)
            return
        old = {index.ident for index in known.indexes}
        for index in collection.indexes:
            if index.ident not in old:
                self.undo.appeared(index.prefix)

    def remove_collection(self, collection: Collection, *, keep_records: bool = False) -> None:
        """Remove a collection from the catalog; nothing is logged. A rename keeps its records."""
        state = self.state
        self.end_group()
        if not keep_records:
            self.check_unused(collection)
        state.transaction.delete(collection.ns.encode(), db=state.tables.catalog)
        self.publish(state.catalog.without_collection(collection.ns))
        if not keep_records:
            self.discard("records", collection.ident)
            built = () if collection.build is None else collection.build.indexes
            for index in (*collection.indexes, *built):
                self.discard("index", index.ident)
            self.remove_count(collection)

    def check_unused(self, collection: Collection) -> None:
        """Raise `Blocked` while an open transaction uses a collection that is to be changed itself."""
        locks = self.state.locks
        user = locks.user(collection.prefix) if locks else None
        if user is not None:
            raise Blocked(user, collection.prefix)

    def publish(self, catalog: Catalog) -> None:
        """Replace the catalog: for this unit at once, for others when it is committed."""
        self.state.catalog = catalog
        self.state.changes += 1

    def discard(self, table: str, ident: int) -> None:
        """Mark records or index keys for removal in the background."""
        if table == "index":
            self.put_meta(multikey_mark(ident), None)
        forget(self.state.tables, self.state.transaction, pack_ident(ident))
        number = _TABLES_WITH_GARBAGE.index(table)
        self.state.transaction.put(bytes([number]) + pack_ident(ident), b"", db=self.state.tables.garbage)
        self.state.has_garbage = True
        self.state.changes += 1

    # -- the end ----------------------------------------------------------------------------------------

    def is_due(self) -> bool:
        if self.steps_left is not None:
            self.steps_left -= 1
            if not self.steps_left:
                return True
        group = self._group
        if group is not None and group.left % _STEPS_BETWEEN_LOOKS:
            return False
        return self.state.share.is_over(is_between=group is None)

    def finish(self) -> None:
        """Log the open group, store counters and the session."""
        self.end_group()
        if self.session is not None and self.session.changed:
            self.put_session(self.session)
            self.session.changed = False
        self.put_counts()
        self.undo.put(self.clock.now)
