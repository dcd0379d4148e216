"""Rows of the operations inside of transactions and batches, spliced like those of plain entries.

The stages have made events of them already; what is saved is the work for each row. Only changes of documents
whose event shows nothing unusual but the transaction's session are taken, and only where there are several.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tailrace.bson import raw as rawbson
from tailrace.bson.dates import LAST_DATE, date_value
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import index_hex, single_id_hex
from tailrace.events.layout.event import session_of
from tailrace.events.oplog_entry import Extras
from tailrace.events.update_diff import describe, diff_of
from tailrace.lake.bulk.columns import InTransaction, PlainRows, SharedParts, stored_layout
from tailrace.lake.bulk.plain_entries import NOWHERE, OPERATIONS, Part, PlainEntries
from tailrace.lake.bulk.splicing import PADDING, Slices, slices_of
from tailrace.lake.document_keys import key_text
from tailrace.lake.entry_remainder import entry_rest

_WORTH_IT: Final = 16


def transaction_rows(
    events: Sequence[ChangeEvent], shared_of: Callable[[ChangeEvent], SharedParts]
) -> tuple[list[PlainRows], list[ChangeEvent]]:
    """Rows of the events that can be spliced, and the other events."""
    groups: dict[tuple[object, str, int, bool], list[ChangeEvent]] = {}
    others: list[ChangeEvent] = []
    rests = _Rests()
    for event in events:
        if _is_usual(event):
            session = session_of(event.entry.extras)
            place = (event.kind, event.shard, session, rests.of(event) is not None)
            groups.setdefault(place, []).append(event)
        else:
            others.append(event)
    rows: list[PlainRows] = []
    for (_, _, session, _), group in groups.items():
        if len(group) < _WORTH_IT or stored_layout(group[0].kind, session) is None:
            others += group
            continue
        made, left = _rows_of(shared_of(group[0]), session, group, rests)
        rows += made
        others += left
    return rows, others


def _is_usual(event: ChangeEvent) -> bool:
    entry, extras = event.entry, event.entry.extras
    return (
        extras.in_apply_ops
        and event.ddl is None
        and event.document_key is not None
        and event.kind.operation_type in OPERATIONS
        and extras.commit_timestamp is None
        and not extras.from_migrate
        and 0 <= date_value(entry.wall) <= LAST_DATE
    )


class _Rests:
    """The values of `entry_rest`; operations of one `applyOps` that are no updates share one."""

    def __init__(self) -> None:
        self._shared: dict[int, bytes | None] = {}

    def of(self, event: ChangeEvent) -> bytes | None:
        if event.update is not None:
            return entry_rest(event)
        extras = event.entry.extras
        if id(extras) not in self._shared:
            self._shared[id(extras)] = entry_rest(event)
        return self._shared[id(extras)]


def _number(extras: Extras) -> bytes:
    return rawbson.INT64_LE.pack(extras.txn_number or 0)


def _rows_of(
    shared: SharedParts, session: int, group: Sequence[ChangeEvent], rests: _Rests
) -> tuple[list[PlainRows], list[ChangeEvent]]:
    kept: list[ChangeEvent] = []
    left: list[ChangeEvent] = []
    key_hexes: list[bytes] = []
    descriptions: list[bytes] = []
    key_texts: list[bytes] = []
    for event in group:
        key_hex = single_id_hex(event.document_key or b"")
        text = key_text(event.document_key)
        try:
            description = None if event.update is None else describe(diff_of(event.update), expanded=True)
        except CommandError:
            key_hex = None
        if key_hex is None or text is None:
            left.append(event)
            continue
        kept.append(event)
        key_hexes.append(key_hex)
        key_texts.append(text.encode())
        if description is not None:
            descriptions.append(description)
    if not kept:
        return [], left
    own_rests = [rests.of(event) or b"" for event in kept]
    transaction = InTransaction(
        session,
        np.array([event.entry.txn_op_index for event in kept], np.int64),
        slices_of([index_hex(event.entry.txn_op_index) for event in kept]),
        slices_of([_number(event.entry.extras) for event in kept]),
        slices_of([event.entry.extras.lsid or b"" for event in kept]),
        (slices_of(own_rests),) if own_rests[0] else (),
    )
    described: Slices | None = slices_of(descriptions) if descriptions else None
    codes = np.zeros(len(kept), np.int64)
    pieces = (slices_of(key_hexes),), (slices_of(key_texts),)
    rows = PlainRows([shared], codes, _entries(kept), *pieces, described)
    rows.transaction = transaction
    rows.images = [event.pre_image for event in kept]
    return [rows], left


def _entries(events: Sequence[ChangeEvent]) -> PlainEntries:
    """The operations as if each were an entry."""
    documents = [event.entry.o for event in events]
    keys = [event.document_key or b"" for event in events]
    times = [rawbson.UINT64_LE.pack(event.entry.ts) + event.entry.wall for event in events]
    memory = b"".join([*documents, *keys, *times, bytes(PADDING)])
    o_size = np.fromiter(map(len, documents), np.int64, len(documents))
    key_size = np.fromiter(map(len, keys), np.int64, len(keys))
    parts = np.full((len(Part), len(events)), NOWHERE)
    parts[Part.NUMBER] = np.arange(len(events))
    parts[Part.OPERATION] = OPERATIONS[events[0].kind.operation_type]
    parts[Part.O] = np.cumsum(o_size) - o_size
    parts[Part.O_SIZE] = o_size
    parts[Part.KEY] = o_size.sum() + np.cumsum(key_size) - key_size
    parts[Part.KEY_SIZE] = key_size
    parts[Part.TIME] = o_size.sum() + key_size.sum() + np.arange(len(events)) * len(times[0])
    parts[Part.WALL] = parts[Part.TIME] + 8
    return PlainEntries(memory, np.frombuffer(memory, np.uint8), parts)
