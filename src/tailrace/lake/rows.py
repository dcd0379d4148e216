"""Canonical events to rows of the history.

What this costs for each event, rendering included, bounds the speed of the whole pipeline: columns are made
of lists that are filled in one pass, and what events of one kind share is looked up by the kind.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError, HistoryError
from tailrace.events.change_event import ChangeEvent, EventKind
from tailrace.events.event_token import id_element
from tailrace.events.memo import LIMIT
from tailrace.events.oplog_entry import PLAIN, Extras
from tailrace.events.stages.render import render
from tailrace.lake.deferred_entries import is_untold
from tailrace.lake.document_keys import key_text
from tailrace.lake.entry_remainder import logged_of
from tailrace.lake.schema import CANONICAL, SCHEMA, TOKEN_VERSION

_ID: Final = b"\x03_id\0"
_ELEMENT_TEXT: Final = 20
"""Where the token's text begins in the element `_id`"""
_NUMBER_SIZE: Final = len(b"\x12txnNumber\0") + 8
_LSID_SIZE: Final = len(b"\x03lsid\0")
_read_int32 = rawbson.INT32_LE.unpack_from

_FIRST_DATE: Final = -62_135_596_800_000
_LAST_DATE: Final = 253_402_300_799_999
"""Milliseconds of the years 1 and 9999: what every reader of a TIMESTAMP can show"""


class RowBuilder:
    """Makes batches of rows; keeps what kinds of events look like in columns."""

    def __init__(self) -> None:
        self._codes: dict[EventKind, int] = {}
        self._kinds: list[tuple[str, str, str | None, str | None]] = []

    def batch(
        self, events: Sequence[ChangeEvent], pre_images: Sequence[bytes | None] | None = None
    ) -> pa.RecordBatch:
        """The rows of some events, in their order.

        ``pre_images`` has one for each event; without it, what the events carry themselves is taken.
        """
        if len(self._kinds) > LIMIT:
            self._codes.clear()
            self._kinds.clear()
        shown: list[bytes | None] = []
        tokens: list[bytes] = []
        logged: list[bytes | None] = []
        indexes: list[int | None] = []
        codes: list[int] = []
        untold: list[int] = []
        damaged: list[int] = []
        known = self._codes
        # The operations of a transaction's entry have the same extras, and mostly the same is logged of them.
        last: Extras = PLAIN
        last_logged: bytes | None = None
        for event in events:
            extras = event.entry.extras
            kind = event.kind
            if event.ddl is not None and is_untold(event):
                untold.append(len(codes))
                shown.append(None)
                tokens.append(token_text(event))
            else:
                try:
                    raw = render(event, CANONICAL, TOKEN_VERSION)
                except CommandError:
                    # The streams that see it fail; the history goes on.
                    damaged.append(len(codes))
                    raw = b""
                shown.append(raw or None)
                start = 4 if extras is PLAIN else _id_start(extras)
                if raw.startswith(_ID, start):
                    text = start + _ELEMENT_TEXT
                    tokens.append(raw[text : text - 1 + _read_int32(raw, text - 4)[0]])
                else:
                    tokens.append(token_text(event))
            if extras is PLAIN:
                indexes.append(None)
                logged.append(None if event.full_document is not None else logged_of(event))
            else:
                indexes.append(event.entry.txn_op_index if extras.in_apply_ops else None)
                if event.update is not None or event.ddl is not None:
                    logged.append(logged_of(event))
                else:
                    if extras is not last:
                        last, last_logged = extras, logged_of(event)
                    logged.append(last_logged)
            code = known.get(kind)
            codes.append(self._code(kind) if code is None else code)
        for row in damaged:
            logged[row] = logged_of(events[row], whole=True)
        if pre_images is None:
            pre_images = [event.pre_image for event in events]
        operation, db, coll, uuid = self._columns(codes, untold)
        keys = [key_text(event.document_key) for event in events]
        arrays = [
            pa.array(tokens, pa.string()),
            _times(events),
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
            pa.array(logged, pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _code(self, kind: EventKind) -> int:
        uuid = None if kind.uuid is None else str(UUID(bytes=kind.uuid))
        code = self._codes[kind] = len(self._kinds)
        self._kinds.append((kind.operation_type, kind.database, kind.collection, uuid))
        return code

    def _columns(self, codes: list[int], untold: list[int]) -> list[pa.Array]:
        """Operation, database, collection and UUID, each looked up by the kind's number."""
        taken = pa.array(codes, pa.int32())
        columns = []
        for position in range(4):
            of_kinds = pa.array([facts[position] for facts in self._kinds], pa.string())
            columns.append(of_kinds.take(taken))
        if untold:
            operations = columns[0].to_pylist()
            for row in untold:
                operations[row] = None
            columns[0] = pa.array(operations, pa.string())
        return columns


def _id_start(extras: Extras) -> int:
    """Where `_id` begins in an event: behind the transaction's number and session, if it shows them."""
    if not extras.in_apply_ops:
        return 4
    number = 0 if extras.txn_number is None else _NUMBER_SIZE
    return 4 + number + (0 if extras.lsid is None else _LSID_SIZE + len(extras.lsid))


def token_text(event: ChangeEvent) -> bytes:
    """The text of the token of an event that does not begin with it, or cannot be shown."""
    try:
        element = id_element(event, TOKEN_VERSION)
    except CommandError:
        # A document key that is no BSON; the row still has its place in the order.
        bare = ChangeEvent(event.entry, event.kind, shard=event.shard)
        element = id_element(bare, TOKEN_VERSION)
    return element[_ELEMENT_TEXT : _ELEMENT_TEXT - 1 + _read_int32(element, _ELEMENT_TEXT - 4)[0]]


def _times(events: Sequence[ChangeEvent]) -> pa.Array:
    try:
        return pa.array([event.entry.ts for event in events], pa.int64())
    except OverflowError:
        raise HistoryError(
            "an oplog entry lies behind the year 2038: the column cluster_time cannot hold its time"
        ) from None


def _dates(events: Sequence[ChangeEvent]) -> pa.Array:
    """The wall times; null for dates that are none."""
    milliseconds = np.frombuffer(b"".join([event.entry.wall for event in events]), "<i8")
    wrong = (milliseconds < _FIRST_DATE) | (milliseconds > _LAST_DATE)
    microseconds = np.where(wrong, 0, milliseconds) * 1000
    return pa.array(microseconds, pa.timestamp("us", tz="UTC"), mask=wrong if wrong.any() else None)


def _shards(events: Sequence[ChangeEvent]) -> pa.Array:
    first = events[0].shard if events else ""
    if all([event.shard == first for event in events]):  # noqa: C419 - a list is quicker here
        return pa.repeat(pa.scalar(first, pa.string()), len(events))
    return pa.array([event.shard for event in events], pa.string())
