"""The columns of many rows at once: plain entries are spliced, finished rows are put between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.events.change_event import EventKind
from tailrace.lake.bulk.plain_entries import INSERT, REPLACE, UPDATE, PlainEntries
from tailrace.lake.bulk.splicing import (
    HEX_LOWER,
    Bytes,
    Group,
    Piece,
    Positions,
    Slices,
    big_endian,
    hexed,
    lines,
    little_endian,
    matrix_of,
    slices_of,
    spliced,
)
from tailrace.lake.document_keys import key_text
from tailrace.lake.schema import SCHEMA

_NAMES: Final = ("operation", "db", "coll", "uuid")


@dataclass(frozen=True, slots=True)
class Look:
    """What the rows of one operation on one collection share."""

    kind: EventKind
    names: tuple[str, str, str | None, str | None]
    """operation, database, collection, UUID"""
    token_middle: bytes
    """what stands between the time and the key; of operations in a transaction, between time and index"""


@dataclass(frozen=True, slots=True)
class Inner:
    """What the rows of operations inside of transactions and batches have besides."""

    index_hex: Slices
    """the operation's place, as it stands in the token"""
    lead: Slices
    """what the event begins with"""
    logged: Slices | None
    index: Positions


@dataclass(slots=True)
class PlainRows:
    """Plain entries of one look whose keys are of one sort; one row for each."""

    look: Look
    shard: str
    entries: PlainEntries
    key_hex: Sequence[Piece]
    """how the key stands in the token"""
    object_ids: Bytes | None
    """the values of the keys, if all are ObjectIds"""
    descriptions: Slices | None
    """`updateDescription`s, if these are updates"""
    images: Sequence[bytes | None] | None = None
    """the documents before the changes, if there are any"""
    inner: Inner | None = None


def bulk_columns(plain: Sequence[PlainRows], general: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of plain entries and rows that are finished, together in the order of their tokens."""
    return _Columns(plain, general).batch()


class _Columns:
    """One batch. Rows have numbers, the plain ones first; `_place` says where each goes."""

    def __init__(self, plain: Sequence[PlainRows], general: pa.RecordBatch) -> None:
        self._plain = plain
        self._general = general
        sizes = [len(rows.entries) for rows in plain]
        ends = np.cumsum([0, *sizes])
        self._numbers = [np.arange(start, end) for start, end in pairwise(ends)]
        self._others = np.arange(ends[-1], ends[-1] + general.num_rows)
        self._count = int(ends[-1]) + general.num_rows
        times = [rows.entries.ts for rows in plain]
        self._times = np.concatenate([*times, general.column("cluster_time").to_numpy()]).astype(np.int64)
        self._order = np.argsort(self._times, kind="stable")
        self._place = np.empty(self._count, np.int64)
        self._place[self._order] = np.arange(self._count)
        self._token_pieces = [_token(rows) for rows in plain]
        self._tokens = self._tokens_in_order()

    def batch(self) -> pa.RecordBatch:
        """All columns."""
        columns = {name: self._repeated(number) for number, name in enumerate(_NAMES)}
        columns["token"] = self._tokens
        columns["cluster_time"] = pa.array(self._times[self._order])
        columns["wall_time"] = self._wall_times()
        columns["shard"] = self._shards()
        columns["txn_index"] = self._transaction_indexes()
        columns["document_key"] = self._spliced("document_key", map(_document_key, self._plain))
        columns["event"] = self._events()
        columns["pre_image"] = self._pre_images()
        columns["logged"] = self._spliced("logged", map(_logged, self._plain))
        return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)

    def _tokens_in_order(self) -> pa.Array:
        tokens = self._spliced("token", self._token_pieces)
        times = self._times[self._order]
        tied = np.zeros(self._count, np.bool_)
        tied[1:] = times[1:] == times[:-1]
        tied[:-1] |= tied[1:]
        places = np.flatnonzero(tied)
        if not len(places):
            return tokens
        texts = tokens.take(pa.array(places)).to_pylist()
        ranked = sorted(range(len(places)), key=lambda row: (times[places[row]], texts[row]))
        if ranked == list(range(len(places))):
            return tokens
        moved = np.arange(self._count)
        moved[places] = places[ranked]
        self._order = self._order[moved]
        self._place[self._order] = np.arange(self._count)
        return tokens.take(pa.array(moved))

    def _events(self) -> pa.Array:
        buffer = np.frombuffer(self._tokens.buffers()[2], np.uint8)
        offsets = np.frombuffer(self._tokens.buffers()[1], np.int32).astype(np.int64)
        groups = []
        for rows, numbers, pieces in zip(self._plain, self._numbers, self._token_pieces, strict=True):
            places = self._place[numbers]
            token = pieces[0]
            if not isinstance(token, np.ndarray):
                starts = offsets[places]
                token = Slices(buffer, starts, offsets[places + 1] - starts)
            groups.append(Group(places, _event(rows, token)))
        return spliced(self._count, [*groups, *self._finished("event")], pa.binary())

    def _spliced(self, name: str, pieces_of_groups: Iterable[Sequence[Piece]]) -> pa.Array:
        groups = []
        for pieces, numbers in zip(pieces_of_groups, self._numbers, strict=True):
            if pieces:
                groups.append(Group(self._place[numbers], pieces))
        return spliced(self._count, [*groups, *self._finished(name)], SCHEMA.field(name).type)

    def _finished(self, name: str) -> list[Group]:
        """The rows of the general road in one column, but for nulls."""
        column = self._general.column(name)
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        if not len(there):
            return []
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :].astype(np.int64)
        buffer = np.frombuffer(column.buffers()[2], np.uint8)
        values = Slices(buffer, offsets[there], offsets[there + 1] - offsets[there])
        return [Group(self._place[self._others[there]], (values,))]

    def _repeated(self, number: int) -> pa.Array:
        """A column with the same value in all rows of a look."""
        values = pa.array([rows.look.names[number] for rows in self._plain], pa.string())
        return self._by_group(values, self._general.column(_NAMES[number]))

    def _shards(self) -> pa.Array:
        values = pa.array([rows.shard for rows in self._plain], pa.string())
        return self._by_group(values, self._general.column("shard"))

    def _by_group(self, values: pa.Array, finished: pa.Array) -> pa.Array:
        """``values`` has one for each group of plain rows."""
        codes = np.empty(self._count, np.int64)
        for group, numbers in enumerate(self._numbers):
            codes[self._place[numbers]] = group
        codes[self._place[self._others]] = np.arange(len(values), len(values) + len(finished))
        return pa.concat_arrays([values, finished]).take(pa.array(codes))

    def _wall_times(self) -> pa.Array:
        finished = self._general.column("wall_time")
        plain = [rows.entries.wall * 1000 for rows in self._plain]
        values = np.concatenate([*plain, finished.cast(pa.int64()).fill_null(0).to_numpy()])
        is_null = np.zeros(self._count, np.bool_)
        is_null[self._others] = finished.is_null().to_numpy(zero_copy_only=False)
        return _with_nulls(values, is_null, self._order, SCHEMA.field("wall_time").type)

    def _transaction_indexes(self) -> pa.Array:
        finished = self._general.column("txn_index")
        values = np.zeros(self._count, np.int64)
        values[self._others] = finished.fill_null(0).to_numpy()
        is_null = np.ones(self._count, np.bool_)
        for rows, numbers in zip(self._plain, self._numbers, strict=True):
            if rows.inner is not None:
                values[numbers] = rows.inner.index
                is_null[numbers] = False
        is_null[self._others] = finished.is_null().to_numpy(zero_copy_only=False)
        return _with_nulls(values, is_null, self._order, pa.int64())

    def _pre_images(self) -> pa.Array:
        groups = self._finished("pre_image")
        for rows, numbers in zip(self._plain, self._numbers, strict=True):
            images = rows.images or ()
            there = np.flatnonzero([image is not None for image in images])
            if len(there):
                values = slices_of([image for image in images if image is not None])
                groups.append(Group(self._place[numbers[there]], (values,)))
        return spliced(self._count, groups, pa.binary())


def _with_nulls(
    values: npt.NDArray[Any], is_null: npt.NDArray[np.bool_], order: Positions, kind: pa.DataType
) -> pa.Array:
    mask = is_null[order] if is_null.any() else None
    return pa.array(values[order], kind, mask=mask)


def _token(rows: PlainRows) -> Sequence[Piece]:
    """One piece if all tokens have the same length."""
    middle: tuple[Piece, ...] = (rows.look.token_middle,)
    if rows.inner is not None:
        middle += (rows.inner.index_hex, rows.look.kind.token_middle)
    pieces = (b"82", hexed(big_endian(rows.entries.ts)), *middle, *rows.key_hex, b"000004")
    fixed = [piece for piece in pieces if not isinstance(piece, Slices)]
    return pieces if len(fixed) < len(pieces) else (matrix_of(fixed, len(rows.entries)),)


def _event(rows: PlainRows, token: Bytes | Slices) -> Sequence[Piece]:
    """As `events/stages/render.py` puts a plain event together; its `_id` as `events/event_token.py`."""
    entries, kind = rows.entries, rows.look.kind
    token_size = token.lengths if isinstance(token, Slices) else token.shape[1]
    pieces: list[Piece] = [
        *(() if rows.inner is None else (rows.inner.lead,)),
        b"\x03_id\0",
        _int32(token_size + 17),
        b"\x02_data\0",
        _int32(token_size + 1),
        token,
        b"\0\0" + kind.lead,
        little_endian(entries.ts, "<i8"),
        kind.uuid_element + b"\x09wallTime\0",
        little_endian(entries.wall, "<i8"),
    ]
    key: Piece = Slices(entries.buffer, entries.key, entries.key_size)
    if rows.object_ids is not None:
        key = lines(entries.buffer, entries.key, int(entries.key_size[0]))
    operation = entries.operation[0]
    if operation in (INSERT, REPLACE):
        pieces += (b"\x03fullDocument\0", Slices(entries.buffer, entries.o, entries.o_size))
    pieces += (kind.key_lead, key)
    if operation == UPDATE and rows.descriptions is not None:
        pieces += (b"\x03updateDescription\0", rows.descriptions)
    pieces.append(b"\0")
    size = Group(entries.number, pieces).lengths() + 4
    return [little_endian(size, "<i4"), *pieces]


def _int32(value: Positions | int) -> Piece:
    """A number, the same for all rows or not, as it stands in BSON."""
    return value.to_bytes(4, "little") if isinstance(value, int) else little_endian(value, "<i4")


def _document_key(rows: PlainRows) -> Sequence[Piece]:
    if rows.object_ids is not None:
        return (b'{"_id": {"$oid": "', hexed(rows.object_ids, HEX_LOWER), b'"}}')
    return (slices_of([(key_text(key) or "").encode() for key in rows.entries.document_keys()]),)


def _logged(rows: PlainRows) -> Sequence[Piece]:
    """Of a plain entry, only an update's diff is not told by its event."""
    if rows.inner is not None:
        return () if rows.inner.logged is None else (rows.inner.logged,)
    entries = rows.entries
    if entries.operation[0] != UPDATE:
        return ()
    diff = Slices(entries.buffer, entries.o, entries.o_size)
    return (little_endian(entries.o_size + 8, "<i4"), b"\x03o\0", diff, b"\0")
