"""The operations inside of transactions and batches, as plain entries.

A *holder* is an `applyOps` entry that is complete in itself: a transaction in one entry, the documents of an
`insertMany`, a batch of deletes. Its operations are found in its bytes, and rows are made of all of them or
of none. Transactions of several entries, prepared ones and what else is unusual take the general path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tailrace.bson import raw as rawbson
from tailrace.events.event_token import index_hex
from tailrace.events.layout.event import NO_SESSION, WITH_NUMBER, WITH_SESSION
from tailrace.lake.bulk.columns import InTransaction, PlainRows, bare_rest, session_rest
from tailrace.lake.bulk.entry_forms import EntryForms, Found
from tailrace.lake.bulk.plain_entries import (
    NOWHERE,
    Part,
    PlainEntries,
    changes_of,
    envelope_of,
    joined_entries,
)
from tailrace.lake.bulk.plain_groups import SharedOf, plain_groups
from tailrace.lake.bulk.splicing import (
    Bytes,
    Positions,
    Slices,
    have_bytes,
    items,
    lines,
    piece_of,
    slices_of,
)
from tailrace.lake.bulk.transaction_ends import TransactionEnd

_COMMAND: Final = b"c\0"
_NAMESPACE: Final = rawbson.INT32_LE.pack(11) + b"admin.$cmd\0"
_OPERATIONS: Final = b"\x04applyOps\0"
_ARRAY: Final = 4 + len(_OPERATIONS)
"""Where the array begins in `o`"""
_SEPARATELY: Final = 1
_IN_TRANSACTION: Final = WITH_NUMBER | WITH_SESSION
_read_int32 = rawbson.INT32_LE.unpack_from


@dataclass(frozen=True, slots=True)
class Holders:
    """Complete `applyOps` entries, and all of their operations."""

    parts: Positions
    """a line for each `Part`, an item for each holder"""
    arrays: Positions
    """where their operations begin"""


def holders_of(buffer: Bytes, found: Found, shards: Positions) -> Holders | None:
    """Return the holders among entries of one form; ``shards`` has a number for each entry."""
    places = found.places
    if "ui" in places or not places.keys() >= {"ts", "wall"} or ("lsid" in places) != ("txnNumber" in places):
        return None
    o = places["o"]
    sizes = items(buffer, "<i4")
    o_size = sizes[o].astype(np.int64)
    o_end = o + o_size
    is_holder = (
        have_bytes(buffer, places["op"], _COMMAND)
        & have_bytes(buffer, places["ns"], _NAMESPACE)
        & have_bytes(buffer, o + 4, _OPERATIONS)
        & (sizes[o + _ARRAY] + _ARRAY + 1 == o_size)
        & (buffer[o_end - 1] == 0)
        & (buffer[o_end - 2] == 0)
    )
    is_batch = np.zeros(len(o), np.bool_)
    if "multiOpType" in places:
        kind = sizes[places["multiOpType"]]
        is_batch = kind == _SEPARATELY
        is_holder &= is_batch | (kind == 0)
    if "prevOpTime" in places:
        is_holder &= is_batch | (items(buffer, "<u8")[places["prevOpTime"]] == 0)
    if not is_holder.any():
        return None
    parts = np.full((len(Part), len(o)), NOWHERE)
    for part, values in envelope_of(buffer, found, shards).items():
        parts[part] = values
    # The session of a batch is not shown.
    parts[Part.LSID, is_batch] = parts[Part.TRANSACTION_NUMBER, is_batch] = NOWHERE
    return Holders(parts[:, is_holder], o[is_holder] + _ARRAY)


class HeldRows:
    """Rows of the operations of holders."""

    def __init__(self, *, marks_end: bool) -> None:
        self._marks_end = marks_end
        self._forms = EntryForms()

    def rows(
        self,
        shards: Sequence[str],
        memory: bytes,
        buffer: Bytes,
        holders: Sequence[Holders],
        shared_of: SharedOf,
    ) -> tuple[list[PlainRows], list[TransactionEnd]]:
        """Return the rows of operations, and the ends of their transactions."""
        if not holders:
            return [], []
        outer = np.concatenate([held.parts for held in holders], axis=1)
        arrays = np.concatenate([held.arrays for held in holders])
        entries, counts = self._operations(memory, buffer, outer, arrays)
        while True:
            groups = []
            for session in (NO_SESSION, _IN_TRANSACTION):
                has_session = entries.part(Part.LSID) != NOWHERE
                own = entries.at(has_session == (session == _IN_TRANSACTION))
                for rows in plain_groups(own, shared_of, session):
                    rows.transaction = _transaction(rows.entries, session)
                    groups.append(rows)
            made = sum(len(rows.entries) for rows in groups)
            if made == len(entries):
                break
            # Entries of which an operation is left to the general path are left to it as a whole.
            done = np.zeros(len(counts), np.int64)
            for rows in groups:
                np.add.at(done, rows.entries.number, 1)
            entries = entries.at((done == counts)[entries.number])
        ends = _ends(shards, groups, outer, buffer, counts) if self._marks_end else []
        for rows in groups:
            rows.entries.number[:] = outer[Part.NUMBER][rows.entries.number]
        return groups, ends

    def _operations(
        self, memory: bytes, buffer: Bytes, outer: Positions, arrays: Positions
    ) -> tuple[PlainEntries, Positions]:
        """Return the operations of all holders that have plain ones only, and how many each of them has.

        Their `NUMBER` is that of the holder in ``outer``.
        """
        starts: list[int] = []
        ends: list[int] = []
        counts = np.zeros(outer.shape[1], np.int64)
        for number, array in enumerate(arrays.tolist()):
            before = len(starts)
            if _walk(memory, array, starts, ends):
                counts[number] = len(starts) - before
            else:
                del starts[before:], ends[before:]
        holder = np.repeat(np.arange(len(counts)), counts)
        index = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
        parts = []
        for found in self._forms.find(buffer, np.array(starts, np.int64), np.array(ends, np.int64)):
            envelope = {part: outer[part][holder[found.rows]] for part in _OUTER}
            envelope |= {Part.NUMBER: holder[found.rows], Part.INDEX: index[found.rows]}
            parts.append(changes_of(buffer, found, envelope)[0])
        entries = joined_entries(memory, buffer, parts)
        done = np.bincount(entries.number, minlength=len(counts))
        return entries.at((done == counts)[entries.number]), counts


def _ends(
    shards: Sequence[str],
    groups: Sequence[PlainRows],
    outer: Positions,
    buffer: Bytes,
    counts: Positions,
) -> list[TransactionEnd]:
    """Return the ends of transactions; rows are numbered by their holders."""
    namespaces: dict[int, set[str]] = {}
    for rows in groups:
        if rows.transaction is not None and rows.transaction.session == _IN_TRANSACTION:
            names = [shared.ns for shared in rows.shared]
            pairs = np.unique(rows.entries.number * len(names) + rows.codes)
            for number, code in zip(*map(np.ndarray.tolist, np.divmod(pairs, len(names))), strict=True):
                namespaces.setdefault(number, set()).add(names[code])
    numbers = items(buffer, "<i8")[outer[Part.TRANSACTION_NUMBER]].tolist()
    times = items(buffer, "<u8")[outer[Part.TIME]].tolist()
    walls, sessions = outer[Part.WALL].tolist(), outer[Part.LSID].tolist()
    sizes, lengths = outer[Part.LSID_SIZE].tolist(), counts.tolist()
    of_shards = outer[Part.SHARD].tolist()
    memory = buffer.data
    return [
        TransactionEnd(
            shards[of_shards[number]],
            times[number],
            bytes(memory[walls[number] : walls[number] + 8]),
            bytes(memory[sessions[number] : sessions[number] + sizes[number]]),
            numbers[number],
            lengths[number],
            tuple(sorted(names)),
        )
        for number, names in sorted(namespaces.items())
    ]


_OUTER: Final = (Part.TIME, Part.WALL, Part.LSID, Part.LSID_SIZE, Part.TRANSACTION_NUMBER, Part.SHARD)


def _walk(memory: bytes, array: int, starts: list[int], ends: list[int]) -> bool:
    """Add where the documents of an array begin and end; return whether it has documents only, and some."""
    position, end = array + 4, array + _read_int32(memory, array)[0] - 1
    find: Callable[[int, int], int] = memory.index
    is_empty = position >= end
    while position < end:
        start = find(0, position + 1) + 1
        if memory[position] != rawbson.DOCUMENT or start + 5 > end:
            return False
        size = _read_int32(memory, start)[0]
        position = start + size
        if size < 5 or position > end:
            return False
        starts.append(start)
        ends.append(position)
    return not is_empty


def _transaction(entries: PlainEntries, session: int) -> InTransaction:
    index = entries.part(Part.INDEX)
    known, codes = np.unique(index, return_inverse=True)
    hexes = slices_of([index_hex(number) for number in known.tolist()])
    index_hexes = Slices(hexes.buffer, hexes.starts[codes], hexes.lengths[codes])
    if session == NO_SESSION:
        return InTransaction(session, index, index_hexes, b"", b"", bare_rest(entries))
    number = lines(entries.buffer, entries.part(Part.TRANSACTION_NUMBER), 8)
    lsid = piece_of(entries.buffer, entries.part(Part.LSID), entries.part(Part.LSID_SIZE))
    return InTransaction(session, index, index_hexes, number, lsid, session_rest(entries, lsid, number))
