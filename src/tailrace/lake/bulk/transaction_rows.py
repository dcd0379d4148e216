"""Rows of the operations inside of transactions and batches, spliced like those of plain entries.

The stages have made events of them already; what is saved is the work for each row. Only changes of documents
whose event shows nothing unusual but the transaction's session are taken, and only where there are several.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import single_id_hex, transaction_index_hex
from tailrace.events.oplog_entry import Extras
from tailrace.events.update_diff import describe, diff_of
from tailrace.lake.bulk.columns import Inner, Look, PlainRows
from tailrace.lake.bulk.plain_entries import (
    DELETE,
    FIRST_DATE,
    INSERT,
    LAST_DATE,
    REPLACE,
    UPDATE,
    PlainEntries,
)
from tailrace.lake.bulk.splicing import PADDING, Slices, slices_of
from tailrace.lake.entry_remainder import logged_of

_WORTH_IT: Final = 16
_OPERATIONS: Final = {"insert": INSERT, "replace": REPLACE, "update": UPDATE, "delete": DELETE}


def inner_rows(
    events: Sequence[ChangeEvent], look_of: Callable[[ChangeEvent], Look | None]
) -> tuple[list[PlainRows], list[ChangeEvent]]:
    """Rows of the events that can be spliced, and the other events."""
    groups: dict[tuple[object, str, bool], list[ChangeEvent]] = {}
    rest: list[ChangeEvent] = []
    sessions = _Sessions()
    for event in events:
        if _is_usual(event):
            groups.setdefault((event.kind, event.shard, sessions.logs(event)), []).append(event)
        else:
            rest.append(event)
    rows: list[PlainRows] = []
    for group in groups.values():
        look = look_of(group[0]) if len(group) >= _WORTH_IT else None
        if look is None:
            rest += group
            continue
        made, left = _rows_of(look, group, sessions)
        rows += made
        rest += left
    return rows, rest


def _is_usual(event: ChangeEvent) -> bool:
    entry, extras = event.entry, event.entry.extras
    return (
        extras.in_apply_ops
        and event.ddl is None
        and event.document_key is not None
        and event.kind.operation_type in _OPERATIONS
        and extras.commit_timestamp is None
        and not extras.from_migrate
        and entry.ts < 1 << 63
        and FIRST_DATE <= rawbson.INT64_LE.unpack(entry.wall)[0] <= LAST_DATE
    )


class _Sessions:
    """What the operations of one `applyOps` share: they have the same extras."""

    def __init__(self) -> None:
        self._leads: dict[int, bytes] = {}
        self._logged: dict[int, bytes | None] = {}

    def lead(self, extras: Extras) -> bytes:
        """What an event begins with: number and session of the transaction."""
        found = self._leads.get(id(extras))
        if found is None:
            found = b""
            if extras.txn_number is not None:
                found = b"\x12txnNumber\0" + rawbson.INT64_LE.pack(extras.txn_number)
            if extras.lsid is not None:
                found += b"\x03lsid\0" + extras.lsid
            self._leads[id(extras)] = found
        return found

    def logged(self, event: ChangeEvent) -> bytes | None:
        """The column `logged`."""
        if event.update is not None:
            return logged_of(event)
        extras = event.entry.extras
        if id(extras) not in self._logged:
            self._logged[id(extras)] = logged_of(event)
        return self._logged[id(extras)]

    def logs(self, event: ChangeEvent) -> bool:
        """Whether there is something in it."""
        return event.update is not None or self.logged(event) is not None


def _rows_of(
    look: Look, group: Sequence[ChangeEvent], sessions: _Sessions
) -> tuple[list[PlainRows], list[ChangeEvent]]:
    kept: list[ChangeEvent] = []
    left: list[ChangeEvent] = []
    key_hexes: list[bytes] = []
    descriptions: list[bytes] = []
    for event in group:
        key_hex = single_id_hex(event.document_key or b"")
        try:
            description = None if event.update is None else describe(diff_of(event.update), expanded=True)
        except CommandError:
            key_hex = None
        if key_hex is None:
            left.append(event)
            continue
        kept.append(event)
        key_hexes.append(key_hex)
        if description is not None:
            descriptions.append(description)
    if not kept:
        return [], left
    logged = [sessions.logged(event) or b"" for event in kept]
    inner = Inner(
        slices_of([transaction_index_hex(event.entry.txn_op_index) for event in kept]),
        slices_of([sessions.lead(event.entry.extras) for event in kept]),
        slices_of(logged) if logged[0] else None,
        np.array([event.entry.txn_op_index for event in kept], np.int64),
    )
    described: Slices | None = slices_of(descriptions) if descriptions else None
    rows = PlainRows(
        look, kept[0].shard, _entries(kept), (slices_of(key_hexes),), None, described, None, inner
    )
    rows.images = [event.pre_image for event in kept]
    return [rows], left


def _entries(events: Sequence[ChangeEvent]) -> PlainEntries:
    """The same as if they were entries of their own."""
    documents = [event.entry.o for event in events]
    keys = [event.document_key or b"" for event in events]
    memory = b"".join([*documents, *keys, bytes(PADDING)])
    o_size = np.fromiter(map(len, documents), np.int64, len(documents))
    key_size = np.fromiter(map(len, keys), np.int64, len(keys))
    o = np.cumsum(o_size) - o_size
    operation = _OPERATIONS[events[0].kind.operation_type]
    return PlainEntries(
        memory,
        np.frombuffer(memory, np.uint8),
        np.arange(len(events)),
        np.full(len(events), operation, np.int8),
        o,
        o,
        o_size,
        o_size.sum() + np.cumsum(key_size) - key_size,
        key_size,
        np.array([event.entry.ts for event in events], np.int64),
        np.frombuffer(b"".join([event.entry.wall for event in events]), "<i8"),
    )
