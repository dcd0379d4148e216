"""The commit of a transaction: its changes put into the tables, its operations into the oplog.

All operations are one `applyOps` entry, or a chain of them if they do not fit into one; the times of a chain
are consecutive. Pre-images are stored under the entry that holds their operation.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.bsonio import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.model.entry_bytes import Operation, apply_ops
from tailrace.store.catalog import Collection, Index
from tailrace.store.overlay import Overlay, keys_in
from tailrace.store.sessions import SessionWrites
from tailrace.store.write_unit import WriteUnit

MAX_ENTRY_BYTES: Final = rawbson.MAX_USER_SIZE
"""The most that the operations of one entry have together, unless it is a single one"""
COMMITTED: Final = "committed"
TRANSIENT: Final = "TransientTransactionError"
"""The label of errors after which the whole transaction may be tried again"""
_OPERATION_FRAME: Final = 96
"""No less than what an operation takes besides its namespace, `o` and `o2`"""


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a transaction, and the document before it if the collection records images."""

    operation: Operation
    pre_image: bytes | None

    @property
    def size(self) -> int:
        """How many bytes it takes in an entry, at most."""
        operation = self.operation
        return len(operation.o) + len(operation.o2 or b"") + 4 * len(operation.ns) + _OPERATION_FRAME


def commit_changes(
    writer: WriteUnit,
    changes: Sequence[Change],
    created: Iterable[Collection],
    overlays: Iterable[Overlay],
    session: SessionWrites,
) -> None:
    """Apply and log a transaction; part of a job that has nothing else to do.

    ``created`` are the collections that the transaction made, with numbers of its own for them and their
    indexes. ``session`` is new: it has no entry under this transaction number.
    """
    for collection in created:
        _create(writer, collection)
    for overlay in overlays:
        _apply(writer, overlay)
    _log(writer, changes, session)
    session.state = COMMITTED
    writer.put_session(session)


def _create(writer: WriteUnit, collection: Collection) -> None:
    if writer.catalog.view(collection.ns) is not None:
        raise CommandError(
            ErrorCode.WriteConflict, f"Write conflict: a view {collection.ns} has been created.", [TRANSIENT]
        )
    indexes = tuple(Index(writer.new_ident(), index.spec) for index in collection.indexes)
    writer.put_collection(collection.having(ident=writer.new_ident(), indexes=indexes))


def _apply(writer: WriteUnit, overlay: Overlay) -> None:
    collection = writer.catalog.by_uuid(overlay.collection.uuid)
    if collection is None:
        raise RuntimeError(f"{overlay.collection.ns} has gone although a transaction uses it")
    # Documents may have exchanged keys of unique indexes: all are taken away before one is given.
    to_put: list[tuple[bytes, bytes]] = []
    for key in overlay.records:
        before, after = writer.record(collection, key), overlay.records.get(key)
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
        not index.takes_duplicates and not index.is_id and keys_in(index, before) != keys_in(index, after)
        for index in collection.indexes
    )


def _log(writer: WriteUnit, changes: Sequence[Change], session: SessionWrites) -> None:
    parts = list(_parts(changes))
    first = writer.clock.tick(len(parts))
    for number, part in enumerate(parts):
        operations = [change.operation for change in part]
        if number < len(parts) - 1:
            entry = apply_ops(operations, partialTxn=True)
        elif number:
            entry = apply_ops(operations, count=len(changes))
        else:
            entry = apply_ops(operations)
        ts = writer.log(entry, session=session, ts=first + number)
        for index, change in enumerate(part):
            uuid = change.operation.uuid
            if change.pre_image is not None and uuid is not None:
                collection = writer.catalog.by_uuid(uuid)
                if collection is not None:
                    writer.put_pre_image(collection, ts, index, change.pre_image)


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
