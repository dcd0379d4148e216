"""Rows that most streams show as stored, without an object for each.

A stream without images, raw updates and stages of a user shows a document change with the bytes of the
history, its token put in front; a stream without `showExpandedEvents` leaves out some fields. Where they are
follows from the two layouts. `tests/lake/test_verbatim.py` compares the bytes with rendered events.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.bson import raw as rawbson
from tailrace.events.layout import event as events_layout
from tailrace.events.layout.event import ChangeLayout, EventLayout
from tailrace.events.layout.fields import Shape, verbatim_shape
from tailrace.events.layout.template import TOKEN, UPDATE, Template
from tailrace.events.layout.token import DOCUMENT_END, document_lead, documents_of_texts
from tailrace.events.stages.scope_match import ScopeMatch
from tailrace.events.stages.stage import VerbatimRow
from tailrace.events.update_diff import NO_PATHS, without_disambiguated_paths
from tailrace.lake.bulk.splicing import Group, Piece, Slices, have_bytes, items, little_endian
from tailrace.lake.entry_remainder import have_bare_deltas
from tailrace.lake.row_kinds import Codes, RowKind, RowKinds
from tailrace.lake.schema import Times, times_of

Flags = npt.NDArray[np.bool_]

_TOKEN_ROOM: Final = 1024
"""More than the token's document has besides its text"""
_MOST_BYTES: Final = 1 << 30
"""Of one column that is built; Arrow counts to twice as many."""
_read_int32 = rawbson.INT32_LE.unpack_from
_LEAD: Final = "lead"
_PARTS: Final = ("first part", "second part", "third part")
"""of a stored event"""


class VerbatimRows:
    """Consecutive document changes whose events show all that is stored; all rows of their cluster times."""

    __slots__ = ("_codes", "_kinds", "_times", "_tokens", "rows", "ts")

    def __init__(
        self,
        rows: pa.RecordBatch,
        tokens: pa.BinaryArray,
        times: Times,
        codes: Codes,
        kinds: dict[int, RowKind],
    ) -> None:
        self.rows = rows
        """For `EventReader.events`, where a stream needs an object for each"""
        self.ts = int(times[-1])
        """The cluster time it ends with"""
        self._tokens = tokens
        self._times = times
        self._codes = codes
        self._kinds = kinds

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def kinds(self) -> Sequence[RowKind]:
        """Which changes of which collections it has."""
        return tuple(self._kinds.values())

    def seen_by(
        self, scope: ScopeMatch, *, expanded: bool, only_inserts: bool
    ) -> Sequence[VerbatimRow] | None:
        """The rows that a stream shows; None if it needs an object for each.

        With ``only_inserts`` it shows other changes in another way: with images, or the raw update.
        """
        seen: dict[RowKind, bool] = {}
        for kind in self._kinds.values():
            decision = scope.sees_head(kind.head)
            if decision is None or (decision and only_inserts and kind.operation != "insert"):
                return None
            seen[kind] = decision
        shown = self.select(seen.__getitem__, expanded=expanded)
        return None if shown is None else list(map(VerbatimRow, *shown))

    def select(
        self, is_wanted: Callable[[RowKind], bool], *, expanded: bool
    ) -> tuple[list[bytes], list[int]] | None:
        """The events of the wanted kinds as a stream shows them, and their cluster times.

        ``expanded`` as in `showExpandedEvents`; images and raw updates are the caller's to refuse. None if
        the rows have to be shown one by one.
        """
        writers: dict[int, EventWriter] = {}
        for code, kind in self._kinds.items():
            if is_wanted(kind):
                writer = writer_of(kind, verbatim_shape(expanded=expanded))
                if writer is None:
                    return None
                writers[code] = writer
        if not writers:
            return [], []
        columns = [self._tokens, self.rows.column("event")]
        bits = self.rows.column("token_type_bits")
        if bits.null_count < len(bits):
            columns.append(bits)
        times, codes = self._times, self._codes
        if len(writers) < len(self._kinds):
            mask = _are_among(codes, writers)
            columns = _chosen(columns, mask)
            times, codes = times[mask], codes[mask]
        return _written(writers, codes, columns), times.tolist()


def _chosen(columns: Sequence[pa.BinaryArray], mask: Flags) -> list[pa.BinaryArray]:
    wanted = pa.array(mask)
    return [column.filter(wanted) for column in columns]


def _written(
    writers: "dict[int, EventWriter]", codes: Codes, columns: Sequence[pa.BinaryArray]
) -> list[bytes]:
    """``columns`` are token texts, stored events, and type bits if a token has any."""
    if len(writers) == 1:
        (writer,) = writers.values()
        return writer.write(*columns)
    shown = [b""] * len(codes)
    for code, writer in writers.items():
        mask = codes == code
        written = writer.write(*_chosen(columns, mask))
        for place, raw in zip(np.flatnonzero(mask).tolist(), written, strict=True):
            shown[place] = raw
    return shown


class EventWriter:
    """Makes the events of one kind and shape from stored ones."""

    __slots__ = ("_cut", "_jumps", "_lead")

    def __init__(self, lead: bytes, cut: tuple[int, int], jumps: list[int] | None) -> None:
        self._lead = lead
        self._cut = cut
        self._jumps = jumps
        """how to find the description of an update, if it has to lose a field"""

    def write(
        self, texts: pa.BinaryArray, stored: pa.BinaryArray, bits: pa.BinaryArray | None = None
    ) -> list[bytes]:
        """``bits`` is None if no token has type bits."""
        if bits is None and self._jumps is None:
            joined = self._joined(texts, stored)
            if joined is not None:
                events: list[bytes] = joined.to_pylist()
                return events
        return self._in_python(
            texts.to_pylist(), stored.to_pylist(), None if bits is None else bits.to_pylist()
        )

    def _joined(self, texts: pa.BinaryArray, stored: pa.BinaryArray) -> pa.BinaryArray | None:
        """The events, joined by Arrow; None if they are too large for one column."""
        start, stop = self._cut
        text_sizes, of_texts = np.unique(_sizes(texts), return_inverse=True)
        leads = [self._lead + document_lead(size) for size in text_sizes.tolist()]
        fixed = len(leads[0]) + len(DOCUMENT_END) + start - stop
        sizes = _sizes(stored) + text_sizes[of_texts] + np.int32(fixed)
        if int(sizes.sum(dtype=np.int64)) > _MOST_BYTES:
            return None
        offsets = np.arange(0, 4 * len(sizes) + 1, 4, dtype=np.int32)
        heads = pa.Array.from_buffers(
            pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(sizes.astype("<i4"))]
        )
        lead = _scalar(leads[0]) if len(leads) == 1 else pa.array(leads, pa.binary()).take(pa.array(of_texts))
        parts = [heads, lead, texts, _scalar(DOCUMENT_END)]
        if start != stop:
            parts.append(pc.binary_slice(stored, 4, start))
        parts += (pc.binary_slice(stored, stop, _MOST_BYTES), _scalar(b""))  # the last one separates them
        return pc.binary_join_element_wise(*parts)

    def _in_python(
        self, texts: Sequence[bytes], stored: Sequence[bytes], bits: Sequence[bytes | None] | None
    ) -> list[bytes]:
        start, stop = self._cut
        columns = [] if start == stop else [[raw[4:start] for raw in stored]]
        if self._jumps is None:
            columns.append([raw[stop:-1] for raw in stored])
        else:
            columns += self._classic_updates(stored)
        parts = _PARTS[: len(columns)]
        if bits is not None:
            tokens = documents_of_texts(texts, bits)
            return Template((self._lead, TOKEN, *parts)).documents([tokens, *columns])
        sizes = list(map(len, texts))
        leads = {size: self._lead + document_lead(size) for size in set(sizes)}
        template = Template((_LEAD, TOKEN, DOCUMENT_END, *parts))
        return template.documents([[leads[size] for size in sizes], texts, *columns])

    @property
    def parts(self) -> tuple[bytes, tuple[int, int], Sequence[int] | None]:
        """For the compiled kernel: what is before the token, what is cut out, how to find a description."""
        return self._lead, self._cut, self._jumps

    def pieces(self, texts: Slices, stored: Slices) -> tuple[list[Piece], Flags]:
        """The same for `splicing.py`, and which rows `write` has to make instead."""
        start, stop = self._cut
        data, starts, ends = stored.buffer, stored.starts, stored.starts + stored.lengths
        text_sizes, of_texts = np.unique(texts.lengths, return_inverse=True)
        leads = [self._lead + document_lead(size) for size in text_sizes.tolist()]
        lead: Piece = leads[0]
        if len(leads) > 1:
            lead = np.frombuffer(b"".join(leads), np.uint8).reshape(len(leads), -1)[of_texts]
        parts: list[Piece] = [lead, texts, DOCUMENT_END]
        if start != stop:
            parts.append(Slices(data, starts + 4, np.full(len(starts), start - 4)))
        left_out = np.zeros(len(starts), np.bool_)
        if self._jumps is None:
            parts.append(Slices(data, starts + stop, ends - starts - stop))
        else:
            first, *others = self._jumps
            place = starts + first
            for jump in others:
                place = place + items(data, "<i4")[place] + jump
            tail = ends - 1 - len(NO_PATHS)
            left_out = ~have_bytes(data, tail, NO_PATHS)
            description = little_endian(tail - place + 1, "<i4")
            body = Slices(data, place + 4, np.maximum(tail - place - 4, 0))
            parts += (Slices(data, starts + stop, place - starts - stop), description, body, b"\0\0")
        sizes = Group(starts, parts).lengths() + 4
        return [little_endian(sizes, "<i4"), *parts], left_out

    def _classic_updates(self, stored: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Updates from the end of the cut on: up to the description, and the description."""
        assert self._jumps is not None
        stop = self._cut[1]
        first, *others = self._jumps
        starts, descriptions = [], []
        for raw in stored:
            place = first
            for jump in others:
                place += _read_int32(raw, place)[0] + jump
            starts.append(raw[stop:place])
            descriptions.append(without_disambiguated_paths(raw[place:-1]))
        return starts, descriptions


def writer_of(kind: RowKind, shape: Shape) -> EventWriter | None:
    """None if a stored event has to be taken apart to be shown."""
    return _writer_of(events_layout.layout, kind, shape)


@lru_cache(maxsize=1024)
def _writer_of(layout: EventLayout, kind: RowKind, shape: Shape) -> EventWriter | None:
    shown = layout.of_change(kind.kind, shape).template
    bare = layout.without_token.of_change(kind.kind, shape)
    stored = kind.stored()
    cut = stored.without(bare)
    if cut is None or shown.holes[:1] != (TOKEN,) or shown.fixed[1:] != bare.template.fixed:
        return None
    if kind.operation != "update" or (shape.expanded and shape.release.disambiguated_paths):
        return EventWriter(shown.fixed[0], cut, None)
    return EventWriter(shown.fixed[0], cut, stored.jumps_to(UPDATE)) if _ends_in_update(stored) else None


def _ends_in_update(layout: ChangeLayout) -> bool:
    return layout.template.holes[-1] == UPDATE and not layout.template.fixed[-1]


def split_runs(batch: pa.RecordBatch, kinds: RowKinds) -> list[pa.RecordBatch | VerbatimRows]:
    """A batch in pieces, in order: runs of plain rows, and rows that need an object each.

    The batch must not end within a cluster time; then no piece does.
    """
    if not batch.num_rows:
        return []
    codes, of_codes = kinds.of(batch)
    changes = {code: kind for code, kind in of_codes.items() if isinstance(kind, RowKind)}
    times = times_of(batch)
    is_plain = plain_rows(batch, codes, changes, times)
    tokens = batch.column("token").cast(pa.binary())
    turns = np.flatnonzero(is_plain[1:] != is_plain[:-1]) + 1
    pieces: list[pa.RecordBatch | VerbatimRows] = []
    bounds = [0, *turns.tolist(), len(times)]
    for start, stop in pairwise(bounds):
        rows = batch.slice(start, stop - start)
        if not is_plain[start]:
            pieces.append(rows)
            continue
        own = codes[start:stop]
        is_all = len(own) == len(codes)
        kinds_of_run = changes if is_all else _present(own, changes)
        pieces.append(VerbatimRows(rows, tokens[start:stop], times[start:stop], own, kinds_of_run))
    return pieces


def plain_rows(
    batch: pa.RecordBatch,
    codes: Codes,
    changes: dict[int, RowKind],
    times: Times,
    among: Flags | None = None,
) -> Flags:
    """Which rows show, with their event alone, all that a stream of the usual shape shows.

    A cluster time with one row that does not has none that does. ``changes`` are the kinds of document
    changes that count, ``among`` the rows.
    """
    is_plain = _plain(batch, codes, changes)
    if among is not None:
        is_plain &= among
    if is_plain.all():
        return is_plain
    begins_time = np.ones(len(times), np.bool_)
    begins_time[1:] = times[1:] != times[:-1]
    number = np.cumsum(begins_time) - 1
    spoilt = np.zeros(number[-1] + 1, np.bool_)
    spoilt[number[~is_plain]] = True
    return np.asarray(~spoilt[number], np.bool_)


def _present(codes: Codes, kinds: dict[int, RowKind]) -> dict[int, RowKind]:
    return {code: kinds[code] for code in dict.fromkeys(codes.tolist())}


def _plain(batch: pa.RecordBatch, codes: Codes, changes: dict[int, RowKind]) -> Flags:
    """The same, without regard to cluster times."""
    updates = [code for code, kind in changes.items() if kind.operation == "update"]
    others = [code for code in changes if code not in updates]
    rest = batch.column("entry_rest")
    event = batch.column("event")
    has_rest = rest.is_valid().to_numpy(zero_copy_only=False)
    found = _are_among(codes, others) & ~has_rest
    if updates:
        found |= _are_among(codes, updates) & has_rest & have_bare_deltas(rest)
    sizes = _sizes(event) + _sizes(batch.column("token")) + _TOKEN_ROOM
    if event.null_count or sizes.max() > rawbson.MAX_INTERNAL_SIZE:
        found &= event.is_valid().to_numpy(zero_copy_only=False) & (sizes <= rawbson.MAX_INTERNAL_SIZE)
    return np.asarray(found, np.bool_)


def _are_among(codes: Codes, wanted: Iterable[int]) -> Flags:
    """`numpy.isin` for few numbers, which is quicker."""
    found = np.zeros(len(codes), np.bool_)
    for code in wanted:
        found |= codes == code
    return found


def _scalar(value: bytes) -> pa.BinaryScalar:
    return pa.scalar(value, pa.binary())


def _sizes(column: pa.BinaryArray | pa.StringArray) -> npt.NDArray[np.int32]:
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return np.diff(offsets[column.offset : column.offset + len(column) + 1])
