"""Rows of the ends of transactions, many at a time.

The general path makes a row of one of them. Those whose session and namespaces are as long differ from it in
values only, and these are put in the places of the first one's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.bson.dates import MICROSECONDS
from tailrace.events.change_event import ChangeEvent, EventKinds
from tailrace.events.event_token import LARGE_NUMBER, numbered_text, token_document
from tailrace.events.layout import event as events_layout
from tailrace.events.layout.template import INDEX, SESSION, TIME, TRANSACTION_NUMBER, WALL, Hole, Template
from tailrace.events.layout.token import change_token, token_text, token_type_bits
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import Extras, Head, OplogEntry
from tailrace.events.stages.transform.noop import transform_noop
from tailrace.events.stages.unwind_transaction import END_NAMESPACE, end_payload, names_array
from tailrace.lake.entry_remainder import entry_rest
from tailrace.lake.rows import names_of
from tailrace.lake.schema import CANONICAL, NAMES, SCHEMA, TIME_COLUMNS, TOKEN_VERSION, time_columns


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction that is in one entry."""

    shard: str
    ts: int
    wall: bytes
    lsid: bytes
    number: int
    count: int
    """how many operations it has"""
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndLayout:
    """How ends with the same namespaces are written."""

    token: Template
    """`SESSION` is what `EndRows.session_of` returns"""
    event: Template
    rest: Template
    names: tuple[str, str, str | None, str | None]


class EndRows:
    """Makes the rows; remembers what the ends of a session, and those with values as long, share."""

    def __init__(self) -> None:
        self._kinds = EventKinds()
        self._templates: dict[tuple[int, ...], _Templates | None] = {}
        self._tokens: dict[bytes, tuple[bytes, bytes | None]] = {}

    def batch(self, ends: Sequence[TransactionEnd]) -> tuple[list[pa.RecordBatch], list[ChangeEvent]]:
        """Return the rows of some ends, and the events of others, which need the general path."""
        groups: dict[tuple[int, ...], list[TransactionEnd]] = {}
        others: list[TransactionEnd] = []
        for end in ends:
            if 0 < end.number < LARGE_NUMBER:
                groups.setdefault(_lengths(end), []).append(end)
            else:
                others.append(end)
        written: list[tuple[list[bytes], list[bytes]]] = []
        taken: list[TransactionEnd] = []
        for place, group in groups.items():
            if place not in self._templates and len(group) >= _WORTH_IT:
                remember(self._templates, place, self._learned(group[0]))
            templates = self._templates.get(place)
            if templates is None:
                others += group
            else:
                written.append(templates.filled(group))
                taken += group
        shown = [raw for events, _ in written for raw in events]
        rests = [raw for _, of_group in written for raw in of_group]
        batches = [self._rows(taken, shown, rests)] if taken else []
        return batches, list(map(self._event, others))

    def layout_of(self, end: TransactionEnd) -> EndLayout | None:
        """How ends like one whose row was made are written; None if it is not known."""
        templates = self._templates.get(_lengths(end))
        if templates is None:
            return None
        values = {NAMESPACES: names_array(end.namespaces)}
        event, rest = templates.event.bound(values), templates.rest.bound(values)
        return EndLayout(_NUMBERED_TOKEN, event, rest, names_of(self._event(end).kind))

    def session_of(self, end: TransactionEnd) -> tuple[bytes, bytes | None] | None:
        """What tokens of an end's session have before the number, and their type bits, if it is known."""
        return self._tokens.get(end.lsid)

    def _event(self, end: TransactionEnd) -> ChangeEvent:
        extras = Extras(lsid=end.lsid, txn_number=end.number, in_apply_ops=True, operations_before=end.count)
        payload = end_payload(end.namespaces, end.lsid, end.number)
        entry = OplogEntry(rawbson.EMPTY, _HEAD, rawbson.EMPTY, payload, end.ts, 0, end.wall, extras)
        event = transform_noop(entry, self._kinds, frozenset())
        event.shard = end.shard
        return event

    def _learned(self, end: TransactionEnd) -> "_Templates | None":
        """Return how the ends of a group are written, found by writing two that have all values different."""
        samples = [
            TransactionEnd(
                end.shard,
                _PATTERN * factor,
                _pack_int64(_PATTERN * factor + 1),
                end.lsid,
                _PATTERN * factor + 2,
                _PATTERN * factor + 3,
                tuple(letter * len(ns.encode()) for ns in end.namespaces),
            )
            for factor, letter in ((1, "q"), (3, "z"))
        ]
        (event, rest), others = map(self._written, samples)
        templates = _Templates(_template(event, samples[0]), _template(rest, samples[0]))
        return templates if templates.filled(samples[1:]) == ([others[0]], [others[1]]) else None

    def _written(self, end: TransactionEnd) -> tuple[bytes, bytes]:
        event = self._event(end)
        return events_layout.layout.without_token.write(event, CANONICAL, b""), entry_rest(event) or b""

    def _rows(self, ends: Sequence[TransactionEnd], shown: list[bytes], rests: list[bytes]) -> pa.RecordBatch:
        around = [self._tokens.get(end.lsid) or self._around(end) for end in ends]
        tokens = [
            numbered_text(end.ts, end.count, middle, end.number)
            for end, (middle, _) in zip(ends, around, strict=True)
        ]
        walls = np.frombuffer(b"".join([end.wall for end in ends]), "<i8") * MICROSECONDS
        names = names_of(self._event(ends[0]).kind)
        times = time_columns(np.array([end.ts for end in ends], np.uint64))
        values: dict[str, Any] = {
            "token": tokens,
            "token_type_bits": [type_bits for _, type_bits in around],
            **dict(zip(TIME_COLUMNS, times, strict=True)),
            "wall_time": walls,
            **{column: [name] * len(ends) for column, name in zip(NAMES, names, strict=True)},
            "event": shown,
            "shard": [end.shard for end in ends],
            "txn_index": [end.count for end in ends],
            "entry_rest": rests,
        }
        nothing = [None] * len(ends)
        arrays = [pa.array(values.get(field.name, nothing), field.type) for field in SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _around(self, end: TransactionEnd) -> tuple[bytes, bytes | None]:
        """Return what the tokens of a session have before the number, and their type bits."""
        document = token_document(self._event(end), TOKEN_VERSION)
        before, _, after = numbered_text(end.ts, end.count, b"|", end.number).partition(b"|")
        text = token_text(document)
        found = text[len(before) : len(text) - len(after)], token_type_bits(document)
        return remember(self._tokens, end.lsid, found)


_HEAD: Final = Head("n", END_NAMESPACE, None)
_PATTERN: Final = 0x0D3B_59A7_61C2
"""A number whose bytes, and those of its neighbours and multiples, are nowhere else in a row"""
COUNT: Final = "count"
NAMESPACES: Final = "namespaces"
_WORTH_IT: Final = 4
_pack_int64 = rawbson.INT64_LE.pack
_pack_uint64 = rawbson.UINT64_LE.pack


_CHANGE_TOKEN: Final = change_token("insert", None)
_NUMBERED_TOKEN: Final = Template([
    _CHANGE_TOKEN.fixed[0], TIME, _CHANGE_TOKEN.fixed[1], INDEX, SESSION, TRANSACTION_NUMBER,
    _CHANGE_TOKEN.fixed[3],
])  # fmt: skip
"""What `numbered_text` writes"""


def _lengths(end: TransactionEnd) -> tuple[int, ...]:
    """What ends have in common that differ in values only."""
    return len(end.lsid), *[len(ns.encode()) for ns in end.namespaces]


@lru_cache(maxsize=1024)
def _array_of(namespaces: tuple[str, ...]) -> bytes:
    return names_array(namespaces)


def _values(end: TransactionEnd) -> dict[Hole, bytes]:
    return {
        NAMESPACES: _array_of(end.namespaces),
        SESSION: end.lsid,
        TIME: _pack_uint64(end.ts),
        WALL: end.wall,
        TRANSACTION_NUMBER: _pack_int64(end.number),
        COUNT: _pack_int64(end.count),
    }


def _template(raw: bytes, end: TransactionEnd) -> Template:
    """The fields of a document, with holes where the values of an end are."""
    pieces: list[bytes | Hole] = [raw[4:-1]]
    for hole, value in _values(end).items():
        split: list[bytes | Hole] = []
        for piece in pieces:
            if isinstance(piece, bytes):
                for place, part in enumerate(piece.split(value)):
                    split += (hole, part) if place else (part,)
            else:
                split.append(piece)
        pieces = split
    return Template(pieces)


@dataclass(frozen=True, slots=True)
class _Templates:
    """The columns `event` and `entry_rest` of some ends."""

    event: Template
    rest: Template

    def filled(self, ends: Sequence[TransactionEnd]) -> tuple[list[bytes], list[bytes]]:
        values = [_values(end) for end in ends]
        event, rest = (
            template.documents([[value[hole] for value in values] for hole in template.holes])
            for template in (self.event, self.rest)
        )
        return event, rest
