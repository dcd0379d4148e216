"""Canonical events to rows of the history.

What this costs for each event, rendering included, bounds the speed of the whole pipeline: columns are made
of lists that are filled in one pass, and what events of one kind share is looked up by the kind.
"""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pyarrow as pa

from tailrace.bson.dates import FIRST_DATE, LAST_DATE, MICROSECONDS
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent, EventKind
from tailrace.events.event_token import token_document
from tailrace.events.layout import event as events_layout
from tailrace.events.layout.token import token_text, token_type_bits
from tailrace.events.memo import LIMIT
from tailrace.events.oplog_entry import PLAIN, Extras
from tailrace.lake.deferred_entries import is_deferred
from tailrace.lake.document_keys import key_text
from tailrace.lake.entry_remainder import entry_rest
from tailrace.lake.schema import CANONICAL, SCHEMA, TOKEN_VERSION, time_columns


class RowBuilder:
    """Makes batches of rows; remembers the columns of kinds of events."""

    def __init__(self) -> None:
        self._codes: dict[EventKind, int] = {}
        self._kinds: list[tuple[str, str, str | None, str | None]] = []

    def batch(
        self, events: Sequence[ChangeEvent], pre_images: Sequence[bytes | None] | None = None
    ) -> pa.RecordBatch:
        """The rows of some events, in their order.

        ``pre_images`` has one item for each event; without it, those of the events are taken.
        """
        if len(self._kinds) > LIMIT:
            self._codes.clear()
            self._kinds.clear()
        shown: list[bytes | None] = []
        tokens: list[bytes] = []
        type_bits: list[bytes | None] = []
        rests: list[bytes | None] = []
        indexes: list[int | None] = []
        sessions: list[bytes | None] = []
        numbers: list[int | None] = []
        codes: list[int] = []
        deferred: list[int] = []
        damaged: list[int] = []
        known = self._codes
        write = events_layout.layout.without_token.write
        # The operations of a transaction's entry have the same extras, and mostly the same remainder.
        last: Extras = PLAIN
        last_rest: bytes | None = None
        for event in events:
            extras = event.entry.extras
            kind = event.kind
            token, is_whole = _token(event)
            tokens.append(token_text(token))
            type_bits.append(token_type_bits(token))
            if event.ddl is not None and is_deferred(event):
                deferred.append(len(codes))
                shown.append(None)
            else:
                try:
                    shown.append(write(event, CANONICAL, b"") if is_whole else None)
                except CommandError:
                    # The streams that see it fail; the pipeline continues.
                    is_whole = False
                    shown.append(None)
                if not is_whole:
                    damaged.append(len(codes))
            if extras is PLAIN or extras.in_apply_ops:
                sessions.append(None)
                numbers.append(None)
            else:
                sessions.append(extras.lsid)
                numbers.append(extras.txn_number)
            if extras is PLAIN:
                indexes.append(None)
                rests.append(None if event.full_document is not None else entry_rest(event))
            else:
                indexes.append(event.entry.txn_op_index if extras.in_apply_ops else None)
                if event.update is not None or event.ddl is not None:
                    rests.append(entry_rest(event))
                else:
                    if extras is not last:
                        last, last_rest = extras, entry_rest(event)
                    rests.append(last_rest)
            code = known.get(kind)
            codes.append(self._code(kind) if code is None else code)
        for row in damaged:
            rests[row] = entry_rest(events[row], whole=True)
        if pre_images is None:
            pre_images = [event.pre_image for event in events]
        operation, db, coll, uuid = self._columns(codes, deferred)
        keys = [key_text(event.document_key) for event in events]
        arrays = [
            pa.array(tokens, pa.string()),
            pa.array(type_bits, pa.binary()),
            *time_columns(np.array([event.entry.ts for event in events], np.uint64)),
            _dates(events),
            operation,
            db,
            coll,
            uuid,
            pa.array(keys, pa.string()),
            pa.array(shown, pa.binary()),
            pa.array(pre_images, pa.binary()),
            _shards(events),
            pa.array(indexes, pa.int64()),
            pa.array(rests, pa.binary()),
            pa.array(sessions, pa.binary()),
            pa.array(numbers, pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _code(self, kind: EventKind) -> int:
        code = self._codes[kind] = len(self._kinds)
        self._kinds.append(names_of(kind))
        return code

    def _columns(self, codes: list[int], deferred: list[int]) -> list[pa.Array]:
        """Operation, database, collection and UUID, each looked up by the kind's number."""
        taken = pa.array(codes, pa.int32())
        columns = []
        for position in range(4):
            of_kinds = pa.array([facts[position] for facts in self._kinds], pa.string())
            columns.append(of_kinds.take(taken))
        if deferred:
            operations = columns[0].to_pylist()
            for row in deferred:
                operations[row] = None
            columns[0] = pa.array(operations, pa.string())
        return columns


def names_of(kind: EventKind) -> tuple[str, str, str | None, str | None]:
    """The columns operation, database, collection and UUID of a kind."""
    uuid = None if kind.uuid is None else str(UUID(bytes=kind.uuid))
    return kind.operation_type, kind.database, kind.collection, uuid


def _token(event: ChangeEvent) -> tuple[bytes, bool]:
    """The token document of an event, and whether it is the whole token."""
    try:
        return token_document(event, TOKEN_VERSION), True
    except CommandError:
        # A document key that is no BSON; the row still has its place in the order.
        bare = ChangeEvent(event.entry, event.kind, shard=event.shard)
        return token_document(bare, TOKEN_VERSION), False


def _dates(events: Sequence[ChangeEvent]) -> pa.Array:
    """The wall times; null for dates that are none."""
    milliseconds = np.frombuffer(b"".join([event.entry.wall for event in events]), "<i8")
    wrong = (milliseconds < FIRST_DATE) | (milliseconds > LAST_DATE)
    microseconds = np.where(wrong, 0, milliseconds) * MICROSECONDS
    return pa.array(microseconds, pa.timestamp("us", tz="UTC"), mask=wrong if wrong.any() else None)


def _shards(events: Sequence[ChangeEvent]) -> pa.Array:
    first = events[0].shard if events else ""
    if all([event.shard == first for event in events]):  # noqa: C419 - a list is quicker here
        return pa.repeat(pa.scalar(first, pa.string()), len(events))
    return pa.array([event.shard for event in events], pa.string())
