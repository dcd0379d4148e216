"""Events of a stream as columns, without an object for each.

A stream without images and stages of a user shows document changes as stored (`verbatim.py`), in older
releases with other tokens (`token_versions.py`). `BlockReader` makes the events of all such rows of a batch
together. What the stream makes of the other rows is put between them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.events.layout.fields import Shape
from tailrace.events.layout.token import DOCUMENT_END, document_lead, document_of_text, token_text
from tailrace.events.stages.stage import Row, VerbatimRow
from tailrace.events.update_diff import NO_PATHS
from tailrace.lake.bulk.kernel import KernelWriter, allocate, compiled_kernel
from tailrace.lake.bulk.splicing import PADDING, Bytes, Group, Positions, Slices, slices_of, spliced
from tailrace.lake.bulk.token_versions import TokenRewriter, rewriter_of
from tailrace.lake.row_kinds import RowKind, RowKinds
from tailrace.lake.schema import TOKEN_VERSION, Times, times_of
from tailrace.lake.verbatim import EventWriter, plain_rows, writer_of

Flags = npt.NDArray[np.bool_]

_NONE: Final = np.empty(0, np.int64)


class BlockRow(VerbatimRow):
    """A row of a block; its token need not be the first field of its event."""

    __slots__ = ("_text",)

    def __init__(self, raw: bytes, cluster_time: int, text: str) -> None:
        super().__init__(raw, cluster_time)
        self._text = text

    @property
    def token_document(self) -> bytes:
        """Without type bits."""
        return document_of_text(self._text.encode())


@dataclass(frozen=True, slots=True)
class EventBlock:
    """Some rows of a stream, in order."""

    events: pa.BinaryArray
    """As BSON, none is null"""
    tokens: pa.StringArray
    """The texts of their resume tokens"""
    times: Times

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[VerbatimRow]:
        return iter(self.rows())

    def rows(self) -> Sequence[VerbatimRow]:
        """An object for each, where rows have to be read one by one."""
        columns = self.events.to_pylist(), self.times.tolist(), self.tokens.to_pylist()
        return list(map(BlockRow, *columns))

    @classmethod
    def of(cls, rows: Sequence[Row | VerbatimRow]) -> "EventBlock":
        """From rows."""
        tokens = [token_text(row.token_document) for row in rows]
        return cls(
            pa.array([row.raw for row in rows], pa.binary()),
            pa.array(tokens, pa.string()),
            np.array([row.cluster_time for row in rows], np.uint64),
        )


@dataclass(frozen=True, slots=True)
class KindWriter:
    """What shows the rows of one kind."""

    event: EventWriter
    token: TokenRewriter | None
    """None if tokens are shown as stored."""

    @property
    def parts(self) -> KernelWriter:
        """For the compiled kernel."""
        return *self.event.parts, None if self.token is None else self.token.parts


class _Made(NamedTuple):
    """Events and tokens of some rows."""

    rows: Positions
    """Which, among those that were asked for"""
    events: pa.BinaryArray
    tokens: pa.StringArray


class StoredRows:
    """A batch of the history, parted into what a stream shows as stored and the rest."""

    def __init__(self, batch: pa.RecordBatch, codes: Positions, is_plain: Flags, times: Times) -> None:
        self._batch = batch
        self._codes = codes
        self._is_plain = is_plain
        self._times = times

    @property
    def others(self) -> pa.RecordBatch:
        """The rows that need an object each; whole cluster times of them."""
        return self._batch.filter(pa.array(~self._is_plain)) if not self._is_plain.all() else self._batch[:0]

    def block(
        self,
        writers: dict[int, KindWriter],
        others: EventBlock | None,
        last: int | None,
        wanted: Flags | None = None,
    ) -> EventBlock:
        """Show the rows that have a writer, up to the cluster time ``last``, and ``others`` between them.

        ``wanted`` are the rows that are shown at all.
        """
        is_shown = self._is_plain & np.isin(self._codes, list(writers))
        if wanted is not None:
            is_shown &= wanted
        if last is not None:
            is_shown &= self._times <= np.uint64(last)
        rows = np.flatnonzero(is_shown)
        times = self._times[rows]
        places, of_others = np.arange(len(rows)), _NONE
        if others is not None and len(others):
            # No cluster time has rows of both.
            places = places + np.searchsorted(others.times, times)
            of_others = np.arange(len(others)) + np.searchsorted(times, others.times)
        made = self._compiled(writers, rows)
        if made is not None and len(made.events) == len(rows) and not len(of_others):
            return EventBlock(made.events, made.tokens, times)
        count = len(rows) + len(of_others)
        all_times = np.empty(count, np.uint64)
        all_times[places] = times
        groups: list[Group] = []
        of_tokens: list[Group] = []
        if made is not None:
            every = np.arange(len(made.events))
            groups.append(Group(places[made.rows], [_slices(made.events, every)]))
            of_tokens.append(Group(places[made.rows], [_slices(made.tokens, every)]))
            is_left = np.ones(len(rows), np.bool_)
            is_left[made.rows] = False
            rows, places = rows[is_left], places[is_left]
        tokens, own = self._tokens(writers, rows)
        groups += self._events(writers, rows, places, tokens, own)
        of_tokens.append(Group(places, [_slices(tokens, own)]))
        if others is not None and len(of_others):
            all_times[of_others] = others.times
            every = np.arange(len(others))
            groups.append(Group(of_others, [_slices(others.events, every)]))
            of_tokens.append(Group(of_others, [_slices(others.tokens, every)]))
        events = spliced(count, groups, pa.binary())
        return EventBlock(events, spliced(count, of_tokens, pa.string()), all_times)

    def _compiled(self, writers: dict[int, KindWriter], rows: Positions) -> _Made | None:
        """What the compiled kernel makes of some rows; None if there is none."""
        kernel = compiled_kernel()
        has_bits = self._batch.column("token_type_bits").is_valid().to_numpy(zero_copy_only=False)
        usual = np.flatnonzero(~has_bits[rows])
        if kernel is None or not len(usual):
            return None
        numbers = np.zeros(max(writers) + 1, np.int64)
        numbers[list(writers)] = np.arange(len(writers))
        taken = rows[usual]
        found = kernel.show(
            (document_lead(0), DOCUMENT_END, NO_PATHS),
            _buffers(self._batch.column("token")),
            _buffers(self._batch.column("event")),
            taken,
            numbers[self._codes[taken]],
            [writer.parts for writer in writers.values()],
            allocate,
        )
        if found is None:
            return None
        (token_ends, tokens, event_ends, events), left = found
        made = np.delete(usual, np.frombuffer(left, np.int64))
        return _Made(
            made,
            pa.Array.from_buffers(pa.binary(), len(made), [None, event_ends, events]),
            pa.Array.from_buffers(pa.string(), len(made), [None, token_ends, tokens]),
        )

    def _tokens(self, writers: dict[int, KindWriter], rows: Positions) -> tuple[pa.StringArray, Positions]:
        """A column with the tokens of some rows, and where they are in it."""
        stored = self._batch.column("token")
        rewriters = {code: writer.token for code, writer in writers.items() if writer.token is not None}
        if not rewriters:
            return stored, rows
        texts, codes = _slices(stored, rows), self._codes[rows]
        groups = []
        for code, rewriter in rewriters.items():
            own = np.flatnonzero(codes == code)
            if len(own):
                groups.append(Group(own, rewriter.pieces(_chosen(texts, own))))
        return spliced(len(rows), groups, pa.string()), np.arange(len(rows))

    def _events(
        self,
        writers: dict[int, KindWriter],
        rows: Positions,
        places: Positions,
        tokens: pa.StringArray,
        of_rows: Positions,
    ) -> list[Group]:
        """``of_rows`` is where the tokens of the rows are."""
        groups: list[Group] = []
        texts = _slices(tokens, of_rows)
        stored = _slices(self._batch.column("event"), rows)
        bits = self._batch.column("token_type_bits")
        has_bits = bits.is_valid().to_numpy(zero_copy_only=False)[rows]
        codes = self._codes[rows]
        for code in np.unique(codes).tolist():
            own = np.flatnonzero(codes == code)
            writer = writers[code].event
            pieces, left_out = writer.pieces(_chosen(texts, own), _chosen(stored, own))
            left_out = left_out | has_bits[own]
            if left_out.any():
                alone = pa.array(rows[own[left_out]])
                own_tokens = tokens.take(pa.array(of_rows[own[left_out]])).cast(pa.binary())
                made = writer.write(own_tokens, self._batch.column("event").take(alone), bits.take(alone))
                groups.append(Group(places[own[left_out]], [slices_of(made)]))
                own = own[~left_out]
                pieces, _ = writer.pieces(_chosen(texts, own), _chosen(stored, own)) if len(own) else ([], 0)
            groups.append(Group(places[own], pieces))
        return groups


class BlockReader:
    """Parts batches for one stream; remembers the kinds of rows."""

    def __init__(self, sees: Callable[[RowKind], bool | None], shape: Shape, version: int) -> None:
        """``sees`` is None for kinds whose rows the stream has to look at one by one.

        ``version`` is that of the stream's tokens.
        """
        self._sees = sees
        self._shape = shape
        self._version = version
        self._kinds = RowKinds()
        self._known: dict[RowKind, tuple[bool, KindWriter | None]] = {}

    def parted(self, batch: pa.RecordBatch) -> tuple[StoredRows, dict[int, KindWriter]]:
        """The rows, and what writes the kinds that the stream shows."""
        codes, kinds = self._kinds.of(batch)
        changes: dict[int, RowKind] = {}
        writers: dict[int, KindWriter] = {}
        for code, kind in kinds.items():
            if isinstance(kind, RowKind):
                if kind not in self._known:
                    self._known[kind] = self._decide(kind)
                is_plain, writer = self._known[kind]
                if is_plain:
                    changes[code] = kind
                if writer is not None:
                    writers[code] = writer
        times = times_of(batch)
        among: Flags | None = None
        if self._version != TOKEN_VERSION:
            among = batch.column("token_type_bits").is_null().to_numpy(zero_copy_only=False)
        return StoredRows(batch, codes, plain_rows(batch, codes, changes, times, among), times), writers

    def _decide(self, kind: RowKind) -> tuple[bool, KindWriter | None]:
        is_seen = self._sees(kind)
        event = writer_of(kind, self._shape) if is_seen else None
        writer = None if event is None else KindWriter(event, rewriter_of(kind.kind, self._version))
        return is_seen is False or writer is not None, writer


def _buffers(column: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """The offsets and the data of a binary or text column."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, np.frombuffer(column.buffers()[2], np.uint8)[first:last]


def _slices(column: pa.Array, rows: Positions) -> Slices:
    """Values of a binary or text column, in a buffer that is padded."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(column.buffers()[2], np.uint8)[first:last]
    starts = offsets[:-1].astype(np.int64) - first
    return Slices(data, starts[rows], np.diff(offsets).astype(np.int64)[rows])


def _chosen(slices: Slices, rows: Positions) -> Slices:
    return Slices(slices.buffer, slices.starts[rows], slices.lengths[rows])
