"""Pre-images that a server did not store, rebuilt from a history.

The history is read once, in order, and what it changes is kept as versions of documents (`versions.py`). From
there on only what was added to it is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError, UsageError
from tailrace.events.change_event import CHANGES, ChangeEvent
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.stages.unwind_transaction import holds_operations
from tailrace.lake.deferred_entries import is_deferred
from tailrace.lake.event_reader import EventReader
from tailrace.lake.past.base import BaseRange, Bases, read_range
from tailrace.lake.past.versions import DocumentVersions, Gap
from tailrace.lake.schema import STREAM_COLUMNS, time_of
from tailrace.lake.table import HistoryTable
from tailrace.namespaces import NamespaceChoice

_RENAME: Final = "rename"
_COMMANDS: Final = frozenset({"drop", _RENAME})
_TARGET: Final = b"dropTarget"
_BINARY_HEADER: Final = 5
_READ: Final = sorted(CHANGES | _COMMANDS)
_CHANGING: Final = frozenset("iud")
_BATCH_ROWS: Final = 1024
"""Rows of a batch: what else waits for the same thread waits for one at most."""


class Images(Enum):
    """Which images streams show; the values are those of the option."""

    STORED = "stored"
    """Those that the deployment has stored, as it does."""
    REBUILT = "rebuilt"
    """Also those that can be rebuilt."""


def images_of(text: str) -> Images:
    """Read the option; `UsageError` if it has another value."""
    try:
        return Images(text)
    except ValueError:
        raise UsageError(f"images are {' or '.join(one.value for one in Images)}, not {text!r}") from None


class VersionsOfHistory:
    """The versions of the documents of a history, or of one of its databases."""

    def __init__(self, table: HistoryTable, versions: DocumentVersions, database: str | None = None) -> None:
        self._table = table
        self._versions = versions
        self._database = database
        self._reader = EventReader()
        self._lock = Lock()
        self.awaits_snapshot = False
        """Whether there is a snapshot of a time that the history has not reached."""

    def advance(self, through: int | None = None) -> Iterator[int]:
        """Apply what the history has, up to a cluster time; yield where it is after each batch.

        A snapshot that was stored since is applied at its time, and the changes after it once more.
        """
        table, versions = self._table, self._versions
        end = table.through if through is None else min(through, table.through)
        if versions.through < table.begins:
            versions.apply([Gap(table.begins)], table.begins)
        self.awaits_snapshot = False
        for base in self._new_bases():
            if base.as_of > end:
                self.awaits_snapshot = True
                break
            if base.as_of < versions.through:
                end = max(end, min(versions.through, table.through))
                versions.rewind(base.as_of)
            yield from self._advance(base.as_of)
            for found in read_range(table.store, base):
                versions.add_documents(base.plan.uuid, found)
                yield versions.through
            versions.finish_base(base.name)
        yield from self._advance(end)

    def _new_bases(self) -> list[BaseRange]:
        """The snapshots that are stored and were not applied, in the order of their times."""
        bases = Bases(self._table.store, self._table.begins)
        return [
            one
            for one in bases.ranges
            if self._versions.lacks(one.name)
            and (self._database is None or one.plan.namespace.partition(".")[0] == self._database)
        ]

    def _advance(self, end: int) -> Iterator[int]:
        table, versions = self._table, self._versions
        if end <= versions.through:
            return
        for batch in table.read(versions.through, end, columns=STREAM_COLUMNS, batch_rows=_BATCH_ROWS):
            last = time_of(batch, batch.num_rows - 1)
            events = self._events(batch.filter(self._is_read(batch)))
            versions.apply(changes_in(events, table.kept.now), last)
            yield versions.through
        versions.apply((), end)

    def rebuild(self, events: Sequence[ChangeEvent], through: int) -> list[bytes | None]:
        """The documents before some changes up to a cluster time; applies what the history has until then."""
        with self._lock:
            if events and self._versions.through < through:
                self._table.refresh()
                for _ in self.advance(through):
                    pass
            return [self._versions.before(event) for event in events]

    def _is_read(self, batch: pa.RecordBatch) -> pa.Array:
        operation = batch.column("operation").cast(pa.string())
        is_read = pc.is_in(operation, value_set=pa.array(_READ))
        wanted = pc.or_(pc.is_null(operation), pc.fill_null(is_read, False))
        if self._database is None:
            return wanted
        database = batch.column("db").cast(pa.string())
        return pc.and_(wanted, pc.or_(pc.is_null(operation), pc.equal(database, self._database)))

    def _events(self, batch: pa.RecordBatch) -> Iterator[ChangeEvent | int]:
        """The events of some rows; a cluster time where a row has none."""
        try:
            yield from self._reader.events(batch)
        except CommandError:
            for row in range(batch.num_rows):
                try:
                    yield from self._reader.events(batch.slice(row, 1))
                except CommandError:
                    yield time_of(batch, row)


def changes_in(events: Iterable[ChangeEvent | int], kept: NamespaceChoice) -> Iterator[ChangeEvent | Gap]:
    """The changes of what a history keeps; a number is the time of something that cannot be read."""
    for event in events:
        if isinstance(event, int):
            yield Gap(event)
        elif is_deferred(event) and hides_changes(event.entry):
            yield Gap(event.entry.ts)
        elif event.kind.operation_type in _COMMANDS:
            yield from (Gap(event.entry.ts, uuid) for uuid in _ended(event, kept))
        elif kept.keeps(event.kind.database, event.kind.collection):
            yield event


def _ended(event: ChangeEvent, kept: NamespaceChoice) -> Iterator[bytes]:
    """The collections whose documents are not known after a drop or a rename."""
    is_rename = event.kind.operation_type == _RENAME
    if event.kind.uuid is not None and not (is_rename and _keeps_renamed(event, kept)):
        yield event.kind.uuid
    described = (event.ddl and event.ddl.description) or rawbson.EMPTY
    target = rawbson.field(described, _TARGET)
    if target is not None and target[0] == rawbson.BINARY:
        yield target[1][_BINARY_HEADER:]


def _keeps_renamed(event: ChangeEvent, kept: NamespaceChoice) -> bool:
    """Whether the changes of a collection are kept after it was renamed."""
    if kept.is_free or event.ddl is None or event.ddl.to is None:
        return kept.is_free
    to = documents.decode(event.ddl.to)
    return kept.keeps(to["db"], to.get("coll"))


def hides_changes(entry: OplogEntry) -> bool:
    """Whether an entry that no events could be made of may have changed documents."""
    return entry.head.op in _CHANGING or holds_operations(entry)
