"""Build the columns of many rows at once: plain entries are spliced, finished rows are put between them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson.dates import MICROSECONDS
from tailrace.events.change_event import EventKind
from tailrace.events.event_token import NO_INDEX
from tailrace.events.layout import event as events_layout
from tailrace.events.layout.event import NO_SESSION, ChangeLayout
from tailrace.events.layout.template import (
    DOCUMENT,
    INDEX,
    KEY,
    SESSION,
    TIME,
    TRANSACTION_NUMBER,
    UPDATE,
    WALL,
    Hole,
    Template,
)
from tailrace.events.merge import order_key
from tailrace.lake.bulk.plain_entries import NOWHERE, UPDATED, Part, PlainEntries
from tailrace.lake.bulk.splicing import (
    Group,
    Piece,
    Positions,
    Slices,
    big_endian,
    chosen,
    hexed,
    items,
    lines,
    little_endian,
    piece_of,
    slices_of,
    spliced,
)
from tailrace.lake.entry_remainder import BARE_DIFF_LEAD, LSID_LEAD, NUMBER_LEAD
from tailrace.lake.schema import CANONICAL, ENCODED, NAMES, SCHEMA, time_columns, times_of

_TIME_WIDTH: Final = 8


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What the rows of one operation on one collection of one shard share."""

    kind: EventKind
    ns: str
    names: tuple[str, str, str | None, str | None]
    """operation, database, collection, UUID"""
    shard: str


@dataclass(frozen=True, slots=True)
class InTransaction:
    """What the rows of operations inside of transactions and batches have besides."""

    session: int
    """what their events show of the transaction: flags of `events/layout/event.py`"""
    index: Positions
    index_hex: Slices
    """the operation's position, as it is in the token"""
    number: Piece
    """`txnNumber`, if it is shown"""
    lsid: Piece
    rest: Sequence[Piece]
    """the column `entry_rest`; nothing where it is null"""


@dataclass(slots=True)
class PlainRows:
    """Plain entries of one operation whose keys are of one sort; one row for each."""

    shared: Sequence[SharedParts]
    codes: Positions
    """which of the shared parts a row has"""
    entries: PlainEntries
    key_hex: Sequence[Piece]
    """the key as it is in the token"""
    key_text: Sequence[Piece]
    """the key as it is in the column `document_key`"""
    descriptions: Slices | None
    """`updateDescription`s, if these are updates"""
    images: Sequence[bytes | None] | None = None
    """the documents before the changes, if there are any"""
    transaction: InTransaction | None = None


def bulk_columns(plain: Sequence[PlainRows], general: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of plain entries and finished rows, in the order of their tokens."""
    return _Columns(plain, general).batch()


class _Columns:
    """One batch. Rows have numbers, the plain ones first; `_place` has the position of each."""

    def __init__(self, plain: Sequence[PlainRows], general: pa.RecordBatch) -> None:
        self._plain = plain
        self._general = general
        sizes = [len(rows.entries) for rows in plain]
        ends = np.cumsum([0, *sizes])
        self._numbers = [slice(start, end) for start, end in pairwise(ends.tolist())]
        self._others = slice(int(ends[-1]), int(ends[-1]) + general.num_rows)
        self._count = int(ends[-1]) + general.num_rows
        self._times = np.concatenate([*(rows.entries.ts for rows in plain), times_of(general)])
        self._indexes, self._has_no_index = self._transaction_indexes()
        self._order = np.lexsort((self._indexes, self._times))
        self._place = np.empty(self._count, np.int64)
        self._place[self._order] = np.arange(self._count)
        self._tokens = self._tokens_in_order()
        self._codes = self._codes_in_order()

    def batch(self) -> pa.RecordBatch:
        columns = {name: self._repeated(number) for number, name in enumerate(NAMES)}
        columns["token"] = self._tokens
        columns["token_type_bits"] = spliced(self._count, self._finished("token_type_bits"), pa.binary())
        columns["cluster_time"], columns["increment"] = time_columns(self._times[self._order])
        columns["wall_time"] = self._wall_times()
        columns["shard"] = self._shards()
        columns["txn_index"] = _with_nulls(self._indexes, self._has_no_index, self._order, pa.int64())
        columns["document_key"] = self._spliced("document_key", (rows.key_text for rows in self._plain))
        columns["event"] = self._spliced("event", map(_event, self._plain))
        columns["pre_image"] = self._pre_images()
        columns["entry_rest"] = self._spliced("entry_rest", map(_entry_rest, self._plain))
        columns["session"] = self._sessions()
        columns["txn_number"] = self._transaction_numbers()
        return pa.RecordBatch.from_arrays([columns[name] for name in ENCODED.names], schema=ENCODED)

    def _tokens_in_order(self) -> pa.Array:
        tokens = self._spliced("token", map(_token, self._plain))
        times, indexes = self._times[self._order], self._indexes[self._order]
        tied = np.zeros(self._count, np.bool_)
        tied[1:] = (times[1:] == times[:-1]) & (indexes[1:] == indexes[:-1])
        tied[:-1] |= tied[1:]
        places = np.flatnonzero(tied)
        if not len(places):
            return tokens
        texts = tokens.take(pa.array(places)).to_pylist()
        keys = list(map(order_key, times[places].tolist(), texts))
        shards = self._shard_numbers()[self._order[places]].tolist()
        ranked = sorted(range(len(places)), key=list(zip(keys, shards, strict=True)).__getitem__)
        if ranked == list(range(len(places))):
            return tokens
        moved = np.arange(self._count)
        moved[places] = places[ranked]
        self._order = self._order[moved]
        self._place[self._order] = np.arange(self._count)
        return tokens.take(pa.array(moved))

    def _shard_numbers(self) -> Positions:
        """The order of rows that have the same token: by shard, finished ones at the end."""
        plain = [rows.entries.part(Part.SHARD) for rows in self._plain]
        numbers = np.concatenate([*plain, np.full(self._general.num_rows, NOWHERE)])
        return np.where(numbers == NOWHERE, self._count, numbers)

    def _spliced(self, name: str, pieces_of_groups: Iterable[Sequence[Piece]]) -> pa.Array:
        groups = []
        for pieces, numbers in zip(pieces_of_groups, self._numbers, strict=True):
            if pieces:
                groups.append(Group(self._place[numbers], pieces))
        return spliced(self._count, [*groups, *self._finished(name)], SCHEMA.field(name).type)

    def _finished(self, name: str) -> list[Group]:
        """The finished rows of one column, without nulls."""
        column = self._general.column(name)
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if not len(there):
            return []
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :].astype(np.int64)
        buffer = np.frombuffer(column.buffers()[2], np.uint8)
        values = Slices(buffer, offsets[there], offsets[there + 1] - offsets[there])
        return [Group(self._place[self._others][there], (values,))]

    def _repeated(self, number: int) -> pa.DictionaryArray:
        """A column with the same value in all rows with equal shared parts."""
        names = [shared.names[number] for rows in self._plain for shared in rows.shared]
        return self._by_code(names, self._general.column(NAMES[number]))

    def _shards(self) -> pa.DictionaryArray:
        shards = [shared.shard for rows in self._plain for shared in rows.shared]
        return self._by_code(shards, self._general.column("shard"))

    def _codes_in_order(self) -> Positions:
        """Which of the shared parts of all groups each row has; finished rows have one number each."""
        codes = np.empty(self._count, np.int64)
        before = 0
        for rows, numbers in zip(self._plain, self._numbers, strict=True):
            codes[self._place[numbers]] = before + rows.codes
            before += len(rows.shared)
        codes[self._place[self._others]] = np.arange(before, before + self._general.num_rows)
        return codes

    def _by_code(self, values: Sequence[str | None], finished: pa.Array) -> pa.DictionaryArray:
        """``values`` has one for each of the shared parts of all groups of plain rows.

        The dictionary has them in the order of the rows, as the compiled kernel's.
        """
        known: dict[str | None, int] = {None: 0}
        encoded = finished.dictionary_encode()
        different = [*encoded.dictionary.to_pylist(), None]
        numbers = np.array([known.setdefault(value, len(known)) for value in (*values, *different)])
        of_finished = len(values) + encoded.indices.fill_null(len(different) - 1).to_numpy()
        of_rows = np.concatenate([numbers[: len(values)], numbers[of_finished]])[self._codes]
        firsts = np.full(len(known), self._count)
        firsts[of_rows[::-1]] = np.arange(self._count)[::-1]
        is_null, firsts[0] = of_rows == 0, self._count
        in_order = np.argsort(firsts, kind="stable")
        ranks = np.empty(len(known), np.int32)
        ranks[in_order] = np.arange(len(known))
        texts = list(known)
        used = [texts[place] for place in in_order[: np.count_nonzero(firsts < self._count)].tolist()]
        indices = pa.array(ranks[of_rows], pa.int32(), mask=is_null if is_null.any() else None)
        return pa.DictionaryArray.from_arrays(indices, pa.array(used, pa.string()))

    def _wall_times(self) -> pa.Array:
        finished = self._general.column("wall_time")
        plain = [rows.entries.wall * MICROSECONDS for rows in self._plain]
        values = np.concatenate([*plain, finished.cast(pa.int64()).fill_null(0).to_numpy()])
        is_null = np.zeros(self._count, np.bool_)
        is_null[self._others] = finished.is_null().to_numpy(zero_copy_only=False)
        return _with_nulls(values, is_null, self._order, SCHEMA.field("wall_time").type)

    def _transaction_indexes(self) -> tuple[Positions, npt.NDArray[np.bool_]]:
        finished = self._general.column("txn_index")
        values = np.zeros(self._count, np.int64)
        values[self._others] = finished.fill_null(0).to_numpy()
        is_null = np.ones(self._count, np.bool_)
        for rows, numbers in zip(self._plain, self._numbers, strict=True):
            if rows.transaction is not None:
                values[numbers] = rows.transaction.index
                is_null[numbers] = False
        is_null[self._others] = finished.is_null().to_numpy(zero_copy_only=False)
        return values, is_null

    def _retryable(self, part: Part) -> Iterator[tuple[PlainEntries, Positions, Positions]]:
        """Plain entries, which have a part of a session, and their rows; events in transactions show it."""
        for rows, numbers in zip(self._plain, self._numbers, strict=True):
            if rows.transaction is None:
                there = np.flatnonzero(rows.entries.part(part) != NOWHERE)
                if len(there):
                    yield rows.entries, there, numbers.start + there

    def _sessions(self) -> pa.Array:
        groups = self._finished("session")
        for entries, there, numbers in self._retryable(Part.LSID):
            starts, sizes = entries.part(Part.LSID)[there], entries.part(Part.LSID_SIZE)[there]
            value = piece_of(entries.buffer, starts, sizes)
            groups.append(Group(self._place[numbers], (value,)))
        return spliced(self._count, groups, pa.binary()).dictionary_encode()

    def _transaction_numbers(self) -> pa.Array:
        finished = self._general.column("txn_number")
        values = np.zeros(self._count, np.int64)
        values[self._others] = finished.fill_null(0).to_numpy()
        is_null = np.ones(self._count, np.bool_)
        is_null[self._others] = finished.is_null().to_numpy(zero_copy_only=False)
        for entries, there, numbers in self._retryable(Part.TRANSACTION_NUMBER):
            values[numbers] = items(entries.buffer, "<i8")[entries.part(Part.TRANSACTION_NUMBER)[there]]
            is_null[numbers] = False
        return _with_nulls(values, is_null, self._order, pa.int64())

    def _pre_images(self) -> pa.Array:
        groups = self._finished("pre_image")
        for rows, numbers in zip(self._plain, self._numbers, strict=True):
            images = rows.images or ()
            there = np.flatnonzero([image is not None for image in images])
            if len(there):
                values = slices_of([image for image in images if image is not None])
                groups.append(Group(self._place[numbers][there], (values,)))
        return spliced(self._count, groups, pa.binary())


def _with_nulls(
    values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_], order: Positions, kind: pa.DataType
) -> pa.Array:
    mask = is_null[order] if is_null.any() else None
    return pa.array(values[order], kind, mask=mask)


def _token(rows: PlainRows) -> Sequence[Piece]:
    transaction = rows.transaction
    values: dict[Hole, Sequence[Piece]] = {
        TIME: (hexed(big_endian(rows.entries.ts)),),
        INDEX: (NO_INDEX if transaction is None else transaction.index_hex,),
        KEY: rows.key_hex,
    }
    return _filled([shared.kind.token for shared in rows.shared], rows.codes, values)


_HOLES: Final = frozenset({DOCUMENT, KEY, UPDATE, TRANSACTION_NUMBER, SESSION, TIME, WALL})


def stored_layout(kind: EventKind, session: int = NO_SESSION) -> ChangeLayout | None:
    """How the column `event` holds the changes of a kind; None if it takes more than entries to fill it."""
    found = events_layout.layout.without_token.of_change(kind, CANONICAL, session)
    return found if _HOLES.issuperset(found.template.holes) else None


def _event(rows: PlainRows) -> Sequence[Piece]:
    entries, transaction = rows.entries, rows.transaction
    session = NO_SESSION if transaction is None else transaction.session
    templates = []
    for shared in rows.shared:
        found = stored_layout(shared.kind, session)
        assert found is not None, "the maker of the rows has checked it"
        templates.append(found.template)
    values: dict[Hole, Sequence[Piece]] = {
        DOCUMENT: (Slices(entries.buffer, entries.o, entries.o_size),),
        KEY: (piece_of(entries.buffer, entries.key, entries.key_size),),
        UPDATE: () if rows.descriptions is None else (rows.descriptions,),
        TRANSACTION_NUMBER: () if transaction is None else (transaction.number,),
        SESSION: () if transaction is None else (transaction.lsid,),
        TIME: (lines(entries.buffer, entries.part(Part.TIME), _TIME_WIDTH),),
        WALL: (lines(entries.buffer, entries.part(Part.WALL), _TIME_WIDTH),),
    }
    pieces = [*_filled(templates, rows.codes, values), b"\0"]
    size = Group(entries.number, pieces).lengths() + 4
    return [little_endian(size, "<i4"), *pieces]


def _filled(
    templates: Sequence[Template], codes: Positions, values: Mapping[Hole, Sequence[Piece]]
) -> list[Piece]:
    """The pieces of rows whose templates have the same holes; ``codes`` has the template of each row."""
    pieces: list[Piece] = []
    for place, hole in enumerate((*templates[0].holes, None)):
        fixed = chosen([template.fixed[place] for template in templates], codes)
        if fixed != b"" if isinstance(fixed, bytes) else True:
            pieces.append(fixed)
        if hole is not None:
            pieces += values[hole]
    return pieces


def _entry_rest(rows: PlainRows) -> Sequence[Piece]:
    """Of a plain entry, only the diff of an update is not in its event."""
    return bare_rest(rows.entries) if rows.transaction is None else rows.transaction.rest


def bare_rest(entries: PlainEntries) -> Sequence[Piece]:
    """The column `entry_rest` of changes of which only the diff of an update has to be stored."""
    if entries.operation != UPDATED:
        return ()
    diff = Slices(entries.buffer, entries.o, entries.o_size)
    return (little_endian(entries.o_size + len(BARE_DIFF_LEAD) + 5, "<i4"), BARE_DIFF_LEAD, diff, b"\0")


def session_rest(entries: PlainEntries, lsid: Piece, number: Piece) -> Sequence[Piece]:
    """The column `entry_rest` of operations of transactions that are in one entry."""
    parts: list[Piece] = [LSID_LEAD, lsid, NUMBER_LEAD, number, b"\0"]
    if entries.operation == UPDATED:
        parts = [BARE_DIFF_LEAD, Slices(entries.buffer, entries.o, entries.o_size), *parts]
    return (little_endian(Group(entries.number, parts).lengths() + 4, "<i4"), *parts)
