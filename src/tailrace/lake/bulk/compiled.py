"""Rows made by the compiled kernel, and what it leaves.

The kernel finds the parts of entries and fills templates with them. What a kind of entry becomes is decided
here, once for each: the first change of a kind goes through the stages, as in `plain_groups.py`. A batch is
one call of `take`, and one of `merged` with the rows of what was left. The ends of transactions, and their
sessions, are left when they are seen for the first time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from tailrace.events.layout.event import NO_SESSION, WITH_NUMBER, WITH_SESSION
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
from tailrace.events.memo import LIMIT
from tailrace.lake.bulk.columns import SharedParts, stored_layout
from tailrace.lake.bulk.kernel import (
    KernelColumn,
    KernelEnd,
    KernelModule,
    MadeColumn,
    Pieces,
    UnknownKind,
    allocate,
)
from tailrace.lake.bulk.plain_entries import UPDATED
from tailrace.lake.bulk.raw_entries import runs_of
from tailrace.lake.bulk.splicing import too_large
from tailrace.lake.bulk.transaction_ends import COUNT, EndRows, TransactionEnd
from tailrace.lake.entry_remainder import BARE_DIFF_LEAD, LSID_LEAD, NUMBER_LEAD
from tailrace.lake.schema import ENCODED, SCHEMA, times_of

ImageAsk: TypeAlias = tuple[str, int, int, bytes, list[bytes | None], int]
"""(shard, cluster time, index, collection UUID; the list that the image goes into, and where)"""
SharedOfSample: TypeAlias = Callable[[str, bytes, int, Callable[[], "ChangeSample"]], SharedParts | None]
"""(shard, head, operation, a change): what rows of such changes share; None if they need the general path"""

_EVENT: Final[dict[Hole, bytes]] = {
    DOCUMENT: b"d", KEY: b"k", UPDATE: b"u", TRANSACTION_NUMBER: b"n", SESSION: b"s", TIME: b"t", WALL: b"w",
}  # fmt: skip
_TOKEN: Final[dict[Hole, bytes]] = {TIME: b"T", INDEX: b"I", KEY: b"K"}
_END_EVENT: Final = _EVENT | {COUNT: b"c"}
_END_TOKEN: Final = _TOKEN | {SESSION: b"S", TRANSACTION_NUMBER: b"N"}
"""The letters by which the kernel knows the holes of templates"""
_BARE_DIFF: Final = Template([BARE_DIFF_LEAD, DOCUMENT])
_IN_SESSION: Final = (LSID_LEAD, SESSION, NUMBER_LEAD, TRANSACTION_NUMBER)


@dataclass(frozen=True, slots=True)
class ChangeSample:
    """One change of a kind."""

    o: bytes
    key: bytes
    ts: int
    wall: int


@dataclass(frozen=True, slots=True)
class LeftByKernel:
    """What the kernel made no rows of: entries by shard, and ends of transactions."""

    entries: dict[str, Sequence[bytes]]
    ends: list[TransactionEnd]
    taken: int
    """How many entries it made rows of"""


class _Known:
    """What a kernel has learned; both are forgotten together."""

    def __init__(self) -> None:
        self.shards: dict[str, int] = {}
        self.kinds: dict[int, tuple[str, SharedParts]] = {}
        self.namespaces: list[str] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self.ends: set[tuple[int, ...]] = set()
        self.sessions: set[bytes] = set()

    def namespace(self, shard: str, ns: str) -> int:
        """The number of a namespace of a shard."""
        number = self._numbers.setdefault((shard, ns), len(self.namespaces))
        if number == len(self.namespaces):
            self.namespaces.append(ns)
        return number


class CompiledRows:
    """Makes rows with a kernel; the kinds that it knows stay known."""

    def __init__(self, module: KernelModule, shared_of: SharedOfSample, *, marks_end: bool) -> None:
        self._module = module
        self._shared_of = shared_of
        self._marks_end = marks_end
        self._kernel = module.Kernel()
        self._known = _Known()
        self._asked_ends: list[tuple[TransactionEnd, Sequence[int]]] = []
        self._images: list[bytes | None] = []

    def take(self, entries: Mapping[str, Sequence[bytes]]) -> LeftByKernel:
        """Read the entries of a time slice; return what is left of them."""
        if len(self._kernel) >= LIMIT:
            self._kernel, self._known = self._module.Kernel(), _Known()
        kernel = self._kernel
        kernel.clear()
        left: dict[str, Sequence[bytes]] = {}
        self._asked_ends = []
        self._images = []
        taken = 0
        for shard, raws in entries.items():
            number = self._known.shards.setdefault(shard, len(self._known.shards))
            of_shard: list[bytes] = []
            for run in runs_of(raws):
                for unknown in kernel.scan(number, run.memory, run.start, np.ascontiguousarray(run.ends)):
                    self._learn(shard, unknown)
                numbers, ends = kernel.settle(self._marks_end)
                of_shard += [run[place] for place in np.frombuffer(numbers, np.int64).tolist()]
                self._asked_ends += [(self._end(shard, end), end[-1]) for end in ends]
            left[shard] = raws if len(of_shard) == len(raws) else of_shard
            taken += len(raws) - len(of_shard)
        return LeftByKernel(left, [end for end, _ in self._asked_ends], taken)

    def asks(self) -> list[ImageAsk]:
        """The images of the last slice's changes that are to be looked up."""
        self._images = [None] * self._kernel.rows()
        asks: list[ImageAsk] = []
        for place, kind, ts, index in self._kernel.changes():
            shard, shared = self._known.kinds[kind]
            if shared.kind.uuid is not None:
                asks.append((shard, ts, index, shared.kind.uuid, self._images, place))
        return asks

    def learn_ends(self, rows: EndRows) -> None:
        """Remember how the ends are written that were left, now that rows were made of them."""
        known = self._known
        for end, namespaces in self._asked_ends:
            session = rows.session_of(end)
            if session is not None and end.lsid not in known.sessions:
                known.sessions.add(end.lsid)
                self._kernel.learn_session(end.lsid, *session)
            place = (len(end.lsid), *namespaces)
            layout = None if place in known.ends else rows.layout_of(end)
            if layout is not None:
                known.ends.add(place)
                token, event = _pieces(layout.token, _END_TOKEN), _pieces(layout.event, _END_EVENT)
                rest = _pieces(layout.rest, _END_EVENT)
                written = (token, event, rest, layout.names, end.shard)
                self._kernel.learn_end(len(end.lsid), namespaces, written)

    def merged(self, others: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the last slice, and others of the same slice, in the order of their tokens."""
        given = _NOTHING_GIVEN if not others.num_rows else _given(others)
        try:
            count, made = self._kernel.columns(times_of(others).tobytes(), given, self._images, allocate)
        except OverflowError:
            raise too_large("more bytes") from None
        self._kernel.clear()
        arrays = [_array(field.type, count, column) for field, column in zip(ENCODED, made, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=ENCODED)

    def _learn(self, shard: str, unknown: UnknownKind) -> None:
        number, shows_session, operation, head, o, key, ts, wall = unknown
        shared = self._shared_of(shard, head, operation, lambda: ChangeSample(o, key, ts, wall))
        session = WITH_NUMBER | WITH_SESSION if shows_session else NO_SESSION
        layout = None if shared is None else stored_layout(shared.kind, session)
        if shared is None or layout is None:
            return
        token, event = _pieces(shared.kind.token, _TOKEN), _pieces(layout.template, _EVENT)
        rest = Template([
            *(_BARE_DIFF.pieces() if operation == UPDATED else ()),
            *(_IN_SESSION if shows_session else ()),
        ])  # fmt: skip
        rest_pieces = _pieces(rest, _EVENT) if rest.holes else None
        written = (token, event, rest_pieces, shared.names, shard)
        self._kernel.learn(number, shows_session, written, self._known.namespace(shard, shared.ns))
        self._known.kinds[number] = shard, shared

    def _end(self, shard: str, end: KernelEnd) -> TransactionEnd:
        ts, wall, lsid, number, count, numbers = end
        namespaces = tuple(sorted([self._known.namespaces[place] for place in numbers]))
        return TransactionEnd(shard, ts, wall, lsid, number, count, namespaces)


def _pieces(template: Template, letters: Mapping[Hole, bytes]) -> Pieces:
    return template.fixed, b"".join([letters[hole] for hole in template.holes])


def _array(kind: pa.DataType, count: int, column: MadeColumn) -> pa.Array:
    valid, offsets, memory, size, values = column
    data = memory.slice(0, size)
    if values is None:
        buffers = [valid, data] if offsets is None else [valid, offsets, data]
        return pa.Array.from_buffers(kind, count, buffers)
    indices = pa.Array.from_buffers(kind.index_type, count, [valid, data])
    of_values = [None, *map(pa.py_buffer, values)]
    different = pa.Array.from_buffers(kind.value_type, len(values[0]) // 4 - 1, of_values)
    return pa.DictionaryArray.from_arrays(indices, different, safe=False)


def _given(rows: pa.RecordBatch) -> list[KernelColumn]:
    """Finished rows as the kernel takes them."""
    return [_given_column(rows.column(field.name), field.type) for field in SCHEMA]


def _given_column(column: pa.Array, kind: pa.DataType) -> KernelColumn:
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False).tobytes()
    is_fixed = not pa.types.is_binary(kind) and not pa.types.is_string(kind)
    if not len(column):
        return valid, None if is_fixed else bytes(4), b""
    if is_fixed:
        return valid, None, column.cast(pa.int64()).fill_null(0).to_numpy().tobytes()
    _, offsets, data = column.buffers()
    used = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return valid, used.tobytes(), b"" if data is None else data.to_pybytes()


NO_ROWS: Final = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in SCHEMA], schema=SCHEMA)
_NOTHING_GIVEN: Final = _given(NO_ROWS)
