"""Rows made by the compiled kernel, and what it leaves.

The kernel finds the parts of entries and fills templates with them. What a kind of entry becomes is decided
here, once for each: the first change of a kind goes through the stages, as in `plain_groups.py`. A batch is
one call of `take`, and one of `merged` with the rows of what was left.
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
from tailrace.lake.bulk.kernel import KernelColumn, KernelEnd, KernelModule, Pieces, UnknownKind
from tailrace.lake.bulk.plain_entries import UPDATED
from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.lake.bulk.transaction_ends import TransactionEnd
from tailrace.lake.entry_remainder import BARE_DIFF_LEAD, LSID_LEAD, NUMBER_LEAD
from tailrace.lake.schema import SCHEMA, times_of

SharedOfSample: TypeAlias = Callable[[str, bytes, int, Callable[[], "ChangeSample"]], SharedParts | None]
"""(shard, head, operation, a change): what rows of such changes share; None if they need the general path"""

_EVENT: Final[dict[Hole, bytes]] = {
    DOCUMENT: b"d", KEY: b"k", UPDATE: b"u", TRANSACTION_NUMBER: b"n", SESSION: b"s", TIME: b"t", WALL: b"w",
}  # fmt: skip
_TOKEN: Final[dict[Hole, bytes]] = {TIME: b"T", INDEX: b"I", KEY: b"K"}
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
    """The entries that the kernel made no rows of, by shard; and the ends of transactions that it did."""

    entries: dict[str, Sequence[bytes]]
    ends: list[TransactionEnd]
    taken: int
    """How many entries it made rows of"""


class CompiledRows:
    """Makes rows with a kernel; the kinds that it knows stay known."""

    def __init__(self, module: KernelModule, shared_of: SharedOfSample, *, marks_end: bool) -> None:
        self._module = module
        self._shared_of = shared_of
        self._marks_end = marks_end
        self._kernel = module.Kernel()
        self._shards: dict[str, int] = {}
        self._namespaces: dict[int, str] = {}

    def take(self, entries: Mapping[str, Sequence[bytes]]) -> LeftByKernel:
        """Read the entries of a time slice; return what is left of them."""
        if len(self._kernel) >= LIMIT:
            self._kernel = self._module.Kernel()
        kernel = self._kernel
        kernel.clear()
        left: dict[str, Sequence[bytes]] = {}
        ends: list[TransactionEnd] = []
        taken = 0
        for shard, raws in entries.items():
            run = RawEntries.of(raws)
            number = self._shards.setdefault(shard, len(self._shards))
            for unknown in kernel.scan(number, run.memory, np.ascontiguousarray(run.ends)):
                self._learn(shard, unknown)
            numbers, found = kernel.settle()
            others = np.frombuffer(numbers, np.int64)
            taken += len(run) - len(others)
            left[shard] = raws if len(others) == len(run) else [run[place] for place in others.tolist()]
            if self._marks_end:
                ends += [self._end(shard, end) for end in found]
        return LeftByKernel(left, ends, taken)

    def merged(self, others: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the last slice, and others of the same slice, in the order of their tokens."""
        given = [_given(others.column(name), name) for name in SCHEMA.names]
        count, made = self._kernel.columns(times_of(others).tobytes(), given, _allocate)
        self._kernel.clear()
        arrays = []
        for field, (valid, offsets, data) in zip(SCHEMA, made, strict=True):
            buffers = [valid, data] if offsets is None else [valid, offsets, data]
            arrays.append(pa.Array.from_buffers(field.type, count, buffers))
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

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
        self._kernel.learn(number, shows_session, token, event, rest_pieces, shared.names, shard)
        self._namespaces[number] = shared.ns

    def _end(self, shard: str, end: KernelEnd) -> TransactionEnd:
        ts, wall, lsid, number, count, kinds = end
        namespaces = tuple(sorted({self._namespaces[kind] for kind in kinds}))
        return TransactionEnd(shard, ts, wall, lsid, number, count, namespaces)


def _pieces(template: Template, letters: Mapping[Hole, bytes]) -> Pieces:
    return template.fixed, b"".join([letters[hole] for hole in template.holes])


def _allocate(size: int) -> tuple[pa.Buffer, memoryview]:
    """Memory of Arrow's pool, and a view of it: the system is not asked for pages again and again."""
    buffer = pa.allocate_buffer(size)
    return buffer, memoryview(buffer).cast("B")


def _given(column: pa.Array, name: str) -> KernelColumn:
    """A finished column as the kernel takes it."""
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False).tobytes()
    kind = SCHEMA.field(name).type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        start, stop = column.offset, column.offset + len(column) + 1
        if not len(column):
            return valid, bytes(4), b""
        offsets = np.frombuffer(column.buffers()[1], np.int32)[start:stop]
        data = column.buffers()[2]
        return valid, offsets.tobytes(), b"" if data is None else data.to_pybytes()
    return valid, None, column.cast(pa.int64()).fill_null(0).to_numpy().tobytes()
