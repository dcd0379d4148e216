"""Commit a transaction: write its changes to the tables and its operations to the oplog.

All operations are one `applyOps` entry, or a chain of entries with consecutive times if they do not fit into
one. Pre-images are stored under the entry that contains their operation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import Operation, apply_ops
from tailrace.events.oplog_entry import OpTime
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.index_keys import all_index_keys
from tailrace.mongod.store.transactions.overlay import Overlay
from tailrace.mongod.store.transactions.sessions import COMMITTED, SessionWrites
from tailrace.mongod.store.write_unit import WriteUnit

MAX_ENTRY_BYTES: Final = rawbson.MAX_USER_SIZE
"""Size limit of the operations in one entry; a single operation may exceed it"""
TRANSIENT: Final = "TransientTransactionError"
"""The label of errors after which the whole transaction may be retried"""
_OPERATION_FRAME: Final = 96
"""Upper bound of an operation's bytes besides its namespace, `o` and `o2`"""


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a transaction, and the document before it if the collection records images."""

    operation: Operation
    pre_image: bytes | None
    retry_image: bytes | None = None
    """The document that a findAndModify returned, for a retry"""

    @property
    def size(self) -> int:
        """Upper bound of its bytes in an entry."""
        operation = self.operation
        return len(operation.o) + len(operation.o2 or b"") + 4 * len(operation.ns) + _OPERATION_FRAME

    @property
    def namespace(self) -> str:
        """The namespace it changes; for a command, that of the collection in its first field."""
        operation = self.operation
        if operation.op != "c":
            return operation.ns
        target = next(iter(documents.decode(operation.o).values()))
        return f"{operation.ns.partition('.')[0]}.{target}"


class PreImage(NamedTuple):
    """A document before one operation of a transaction, and the place of that operation in the oplog."""

    uuid: bytes
    ts: int
    position: int
    document: bytes


class RetryImage(NamedTuple):
    """The document that a findAndModify in a transaction returned."""

    ts: int
    kind: str
    document: bytes


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a transaction."""

    before: Sequence[PreImage]
    """For change streams"""
    retry: RetryImage | None
    """For a retry; a transaction that is a retryable write has at most one findAndModify"""

    def put(self, writer: WriteUnit, session: SessionWrites, wall: int | None = None) -> None:
        """Store them; ``wall`` is the time at which the operations were logged, if that was earlier."""
        for image in self.before:
            collection = writer.catalog.by_uuid(image.uuid)
            if collection is not None:
                writer.put_pre_image(collection, image.ts, image.position, image.document, wall=wall)
        if self.retry is not None:
            writer.put_retry_image(session, *self.retry)


@dataclass(frozen=True, slots=True)
class Effects:
    """The changes of a transaction to the tables."""

    created: Sequence[Collection]
    """The collections it created, with temporary numbers for them and their indexes"""
    records: Mapping[bytes, Sequence[tuple[bytes, bytes | None]]]
    """By UUID of the collection: record keys and their new documents; None for deleted ones"""

    @classmethod
    def of(cls, created: Iterable[Collection], overlays: Iterable[Overlay]) -> "Effects":
        return cls(
            list(created),
            {
                overlay.collection.uuid: [(key, overlay.records.get(key)) for key in overlay.records]
                for overlay in overlays
            },
        )

    def apply(self, writer: WriteUnit) -> None:
        for collection in self.created:
            _create(writer, collection)
        for uuid, records in self.records.items():
            _apply(writer, uuid, records)


def commit_changes(
    writer: WriteUnit, changes: Sequence[Change], effects: Effects, session: SessionWrites
) -> None:
    """Apply and log a transaction; the only content of its job.

    ``session`` is new: it has no entry under this transaction number.
    """
    effects.apply(writer)
    log_changes(writer, changes, session).put(writer, session)
    session.state = COMMITTED
    writer.put_session(session)


def _create(writer: WriteUnit, collection: Collection) -> None:
    if writer.catalog.view(collection.ns) is not None:
        raise CommandError(
            ErrorCode.WriteConflict, f"Write conflict: a view {collection.ns} has been created.", [TRANSIENT]
        )
    indexes = tuple(Index(writer.new_ident(), index.spec) for index in collection.indexes)
    writer.put_collection(collection.with_changes(ident=writer.new_ident(), indexes=indexes))


def _apply(writer: WriteUnit, uuid: bytes, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    collection = writer.catalog.by_uuid(uuid)
    if collection is None:
        raise RuntimeError(f"the collection {uuid.hex()} has gone although a transaction uses it")
    # Documents may have exchanged keys of unique indexes: all old keys are removed before a new one is added.
    to_put: list[tuple[bytes, bytes]] = []
    for key, after in records:
        before = writer.record(collection, key)
        if before is None:
            if after is not None:
                to_put.append((key, after))
        elif after is None:
            writer.put_removed(collection, key, before)
        elif _moves(collection, before, after):
            writer.put_removed(collection, key, before)
            to_put.append((key, after))
        elif before != after:
            writer.put_changed(collection, key, before, after)
    for key, document in to_put:
        writer.put_new(collection, document, key)


def _moves(collection: Collection, before: bytes, after: bytes) -> bool:
    return any(
        not index.allows_duplicates
        and not index.is_id
        and all_index_keys(index, before) != all_index_keys(index, after)
        for index in collection.indexes
    )


def log_changes(
    writer: WriteUnit, changes: Sequence[Change], session: SessionWrites, *, prepares: bool = False
) -> Images:
    """Log the operations, as committed or as prepared; returns the images to store."""
    parts = list(_parts(changes))
    first = writer.clock.tick(len(parts))
    writer.undo.all_at(first + len(parts) - 1)  # all of it is visible with its last entry
    if prepares:
        session.start = OpTime(first, writer.term)
    before: list[PreImage] = []
    retry: RetryImage | None = None
    for number, part in enumerate(parts):
        flags: dict[str, bool | int] = {}
        if number < len(parts) - 1:
            flags["partialTxn"] = True
        else:
            if prepares:
                flags["prepare"] = True
            if number:
                flags["count"] = len(changes)
        entry = apply_ops([change.operation for change in part], from_migrate=None, **flags)
        ts = writer.log(entry, session=session, ts=first + number)
        for index, change in enumerate(part):
            uuid, kind = change.operation.uuid, change.operation.needs_retry_image
            if change.pre_image is not None and uuid is not None:
                before.append(PreImage(uuid, ts, index, change.pre_image))
            if change.retry_image is not None and kind is not None:
                retry = RetryImage(ts, kind, change.retry_image)
    return Images(before, retry)


def _parts(changes: Sequence[Change]) -> Iterator[list[Change]]:
    part: list[Change] = []
    size = 0
    for change in changes:
        if part and size + change.size > MAX_ENTRY_BYTES:
            yield part
            part, size = [], 0
        part.append(change)
        size += change.size
    yield part
