"""Raw entries of all shards to rows of the history, many at a time.

Nearly all entries of an oplog are plain inserts, updates and deletes (`plain_entries.py`). What their rows look like
is told by one of them: the first of its kind takes the general road, through the stages and `rows.py`, and is taken
apart; the others differ in times, key and document only, and are spliced (`splicing.py`). Every other entry
takes the general road itself. What comes out is the same to the byte; the tests compare both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.errors import CommandError
from tailrace.history.document_keys import key_text
from tailrace.history.plain_entries import DELETE, DIFF, UPDATE, PlainEntries, find_plain
from tailrace.history.rows import RowBuilder
from tailrace.history.schema import SCHEMA
from tailrace.history.splicing import (
    HEX_LOWER,
    Bytes,
    Group,
    Piece,
    Positions,
    Slices,
    big_endian,
    hexed,
    items,
    slices_of,
    spliced,
)
from tailrace.model.change_event import ChangeEvent, EventKind
from tailrace.model.event_token import single_id_hex
from tailrace.model.memo import remember
from tailrace.model.oplog_entry import PLAIN
from tailrace.model.update_diff import describe

EventsOf: TypeAlias = Callable[[str, Sequence[bytes]], list[ChangeEvent]]
"""(shard, entries of it in order): their canonical events"""
PreImageOf: TypeAlias = Callable[[str, bytes, int], bytes | None]
"""(shard, collection UUID, cluster time of a plain entry): the document before the change"""

_MANY_KINDS: Final = 64
_ID_SIZE: Final = 12
_OBJECT_ID_KEY: Final = 22
_TOKEN_END: Final = b"000004"
_Selected: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Look:
    """What the rows of one operation on one collection share."""

    kind: EventKind
    operation: str
    db: str
    coll: str | None
    uuid: str | None
    token_middle: bytes
    """what stands between the time and the key"""


@dataclass(slots=True)
class _Rows:
    """Plain entries of one look and one sort of key, and where their rows go."""

    look: _Look
    shard: int
    entries: PlainEntries
    has_object_id: bool
    key_hex: Piece
    numbers: Positions
    """among all plain rows"""
    descriptions: Slices | None


class BulkRows:
    """Makes batches of rows from time slices of the oplogs; keeps what kinds of rows look like."""

    def __init__(self, events_of: EventsOf, pre_image_of: PreImageOf | None = None) -> None:
        """``pre_image_of`` is for sources that keep any; the general road brings its own."""
        self._events_of = events_of
        self._pre_image_of = pre_image_of
        self._rows = RowBuilder()
        self._looks: dict[tuple[str, bytes, int], _Look | None] = {}

    def batch(self, entries: Mapping[str, Sequence[bytes]]) -> pa.RecordBatch:
        """The rows of all entries of a time slice, in the order of their tokens.

        A time slice has all entries of every shard between two cluster times.
        """
        shards = list(entries)
        plain: list[_Rows] = []
        events: list[ChangeEvent] = []
        count = 0
        for number, (shard, raws) in enumerate(entries.items()):
            groups = self._plain_groups(shard, number, raws)
            is_plain = np.zeros(len(raws), np.bool_)
            for group in groups:
                is_plain[group.entries.number] = True
                group.numbers = np.arange(count, count + len(group.entries))
                count += len(group.entries)
            plain += groups
            others = np.flatnonzero(~is_plain).tolist()
            if others:
                events += self._events_of(shard, [raws[index] for index in others])
        general = self._rows.batch(events)
        if not count:
            return _in_token_order(general, shards)
        return _Columns(plain, general, shards, count, self._pre_image_of).batch()

    def _plain_groups(self, shard: str, number: int, raws: Sequence[bytes]) -> list[_Rows]:
        found = find_plain(raws)
        groups: list[_Rows] = []
        waiting = np.arange(len(found))
        for _ in range(_MANY_KINDS):
            if not len(waiting):
                break
            first = int(waiting[0])
            alike = waiting[_like_first(found, waiting)]
            waiting = np.setdiff1d(waiting, alike, assume_unique=True)
            look = self._look(shard, raws[int(found.number[first])], found, first)
            if look is not None:
                groups += _by_key(look, number, found.at(alike))
        return groups

    def _look(self, shard: str, raw: bytes, found: PlainEntries, row: int) -> _Look | None:
        beginning = found.buffer[found.beginning[row] : found.o[row]].tobytes()
        place = (shard, beginning, int(found.operation[row]))
        if place in self._looks:
            return self._looks[place]
        events = self._events_of(shard, [raw])
        return remember(self._looks, place, self._look_of(events[0]) if len(events) == 1 else None)

    def _look_of(self, event: ChangeEvent) -> _Look | None:
        if event.entry.extras is not PLAIN or event.ddl is not None or event.document_key is None:
            return None
        key_hex = single_id_hex(event.document_key)
        if key_hex is None:
            return None
        row = self._rows.batch([event]).to_pylist()[0]
        ending = key_hex + _TOKEN_END
        token: bytes = row["token"].encode()
        if not token.endswith(ending):
            return None
        return _Look(
            event.kind,
            row["operation"],
            row["db"],
            row["coll"],
            row["uuid"],
            token[18 : -len(ending)],
        )


def _like_first(found: PlainEntries, waiting: Positions) -> _Selected:
    """Which entries are the same operation on the same collection as the first one that waits."""
    first = waiting[0]
    width = int(found.o[first] - found.beginning[first])
    same = (found.o[waiting] - found.beginning[waiting] == width) & (
        found.operation[waiting] == found.operation[first]
    )
    shared = items(found.buffer, f"V{width}")
    candidates = np.flatnonzero(same)
    equal = shared[found.beginning[waiting[candidates]]] == shared[found.beginning[first]]
    same[candidates] = equal
    return same


def _by_key(look: _Look, shard: int, entries: PlainEntries) -> list[_Rows]:
    """The same rows by the sort of their keys, without those whose key or diff needs the general road."""
    buffer, key = entries.buffer, entries.key
    has_object_id = (
        (entries.key_size == _OBJECT_ID_KEY)
        & (buffer[key + 4] == 7)
        & (items(buffer, "<i4")[key + 5] == int.from_bytes(b"_id\0", "little"))
    )
    groups = []
    chosen = np.flatnonzero(has_object_id)
    if len(chosen):
        own = entries if len(chosen) == len(entries) else entries.at(chosen)
        own, descriptions, _ = _described(own)
        identifiers = _lines(buffer, own.key + 9, _ID_SIZE)
        hexes = np.concatenate(
            (np.tile(np.frombuffer(b"645F69640064", np.uint8), (len(own), 1)), hexed(identifiers)), axis=1
        )
        groups.append(_Rows(look, shard, own, True, hexes, own.number, descriptions))
    chosen = np.flatnonzero(~has_object_id)
    if len(chosen):
        own, descriptions, _ = _described(entries.at(chosen))
        texts = [single_id_hex(key) for key in _values(buffer, own.key, own.key_size)]
        good = [index for index, text in enumerate(texts) if text is not None]
        if len(good) < len(own):
            own, descriptions = own.at(np.array(good, np.int64)), _some(descriptions, good)
        hexes_of = slices_of([text for text in texts if text is not None])
        groups.append(_Rows(look, shard, own, False, hexes_of, own.number, descriptions))
    return [group for group in groups if len(group.entries)]


def _described(entries: PlainEntries) -> tuple[PlainEntries, Slices | None, None]:
    """Updates with their descriptions; those that have none are left out."""
    if not len(entries) or entries.operation[0] != UPDATE:
        return entries, None, None
    texts: list[bytes] = []
    bad: list[int] = []
    diffs = _values(entries.buffer, entries.o + DIFF, entries.o_size - DIFF - 1)
    for index, diff in enumerate(diffs):
        try:
            texts.append(describe(diff, expanded=True))
        except CommandError:
            bad.append(index)
    if bad:
        entries = entries.at(np.setdiff1d(np.arange(len(entries)), np.array(bad)))
    return entries, slices_of(texts), None


def _some(slices: Slices | None, rows: list[int]) -> Slices | None:
    if slices is None:
        return None
    chosen = np.array(rows, np.int64)
    return Slices(slices.buffer, slices.starts[chosen], slices.lengths[chosen])


def _values(buffer: Bytes, starts: Positions, sizes: Positions) -> list[bytes]:
    memory = buffer.tobytes() if buffer.base is None else bytes(memoryview(buffer))
    return [
        memory[start:end] for start, end in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    ]


def _lines(buffer: Bytes, starts: Positions, width: int) -> Bytes:
    taken: npt.NDArray[Any] = items(buffer, f"V{width}")[starts]
    return taken.view(np.uint8).reshape(-1, width)


def _int32(values: Positions) -> Bytes:
    return values.astype("<i4").view(np.uint8).reshape(-1, 4)
