"""Rows that most streams show as they are stored, without an object for each.

A stream without images, raw updates and stages of a user shows a document change as the history holds it, or
without the two fields that only expanded events have; they are cut out where they are known to stand.
`tests/lake/test_plain_runs.py` holds the bytes against those of the general way.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.lake.row_kinds import Codes, RowKind, RowKinds

Flags = npt.NDArray[np.bool_]

_read_int32 = rawbson.INT32_LE.unpack_from
_pack_int32 = rawbson.INT32_LE.pack
_TOKEN: Final = 9
"""Where the token's document begins in an event"""
_UUID: Final = len(b"\x05collectionUUID\0") + 4 + 1 + 16
_WALL: Final = len(b"\x09wallTime\0") + 8
_UPDATE: Final = b"\x03updateDescription\0"
_PATHS: Final = b"\x03disambiguatedPaths\0" + rawbson.EMPTY
_ENDS: Final = b"\0\0"
"""Of the description and of the event"""
_O: Final = (rawbson.DOCUMENT, ord("o"), 0)


class PlainRun:
    """Consecutive document changes that tell everything; it has all rows of its cluster times."""

    __slots__ = ("_codes", "_events", "_kinds", "_times", "rows", "ts")

    def __init__(self, rows: pa.RecordBatch, codes: Codes, kinds: dict[int, RowKind]) -> None:
        self.rows = rows
        """For `EventReader.events`, where a stream has to look at them one by one"""
        times = rows.column("cluster_time")
        self.ts: int = times[len(times) - 1].as_py()
        """The cluster time it ends with"""
        self._codes = codes
        self._kinds = kinds
        self._events = rows.column("event")
        self._times = times

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def kinds(self) -> Sequence[RowKind]:
        """Which changes of which collections it has."""
        return tuple(self._kinds.values())

    def select(
        self, is_wanted: Callable[[RowKind], bool], *, expanded: bool
    ) -> tuple[list[bytes], list[int]]:
        """The events of the wanted kinds as a stream shows them, and their cluster times.

        ``expanded`` as in `showExpandedEvents`; images and raw updates are the caller's to refuse.
        """
        wanted = [code for code, kind in self._kinds.items() if is_wanted(kind)]
        if not wanted:
            return [], []
        events, times, codes = self._events, self._times, self._codes
        if len(wanted) < len(self._kinds):
            mask = np.isin(codes, wanted)
            chosen = pa.array(mask)
            events, times, codes = events.filter(chosen), times.filter(chosen), codes[mask]
        raws: list[bytes] = events.to_pylist()
        if not expanded:
            raws = self._classic(raws, codes, wanted)
        return raws, times.to_pylist()

    def _classic(self, raws: list[bytes], codes: Codes, wanted: list[int]) -> list[bytes]:
        kinds = self._kinds
        if len(wanted) == 1:
            kind = kinds[wanted[0]]
            if kind.operation != "update":
                return _without_uuid(raws, kind.to_uuid)
            return [_classic_update(raw, kind) for raw in raws]
        return [
            _classic_update(raw, kinds[code])
            if kinds[code].operation == "update"
            else _without_uuid((raw,), kinds[code].to_uuid)[0]
            for raw, code in zip(raws, codes.tolist(), strict=True)
        ]


def split_runs(batch: pa.RecordBatch, kinds: RowKinds) -> list[pa.RecordBatch | PlainRun]:
    """A batch in pieces, in order: runs of plain rows, and rows that need a look at each.

    The batch must not end within a cluster time, and then no piece does.
    """
    if not batch.num_rows:
        return []
    codes, of_codes = kinds.of(batch)
    changes = {code: kind for code, kind in of_codes.items() if isinstance(kind, RowKind)}
    is_plain = _plain(batch, codes, changes)
    times = batch.column("cluster_time").to_numpy()
    begins_time = np.ones(len(times), np.bool_)
    begins_time[1:] = times[1:] != times[:-1]
    if not is_plain.all():
        # A cluster time with one row that is not plain has none that is.
        number = np.cumsum(begins_time) - 1
        spoilt = np.zeros(number[-1] + 1, np.bool_)
        spoilt[number[~is_plain]] = True
        is_plain = ~spoilt[number]
    turns = np.flatnonzero(is_plain[1:] != is_plain[:-1]) + 1
    pieces: list[pa.RecordBatch | PlainRun] = []
    bounds = [0, *turns.tolist(), len(times)]
    for start, stop in pairwise(bounds):
        rows = batch.slice(start, stop - start)
        if not is_plain[start]:
            pieces.append(rows)
            continue
        own = codes[start:stop]
        is_all = len(own) == len(codes)
        pieces.append(PlainRun(rows, own, changes if is_all else _present(own, changes)))
    return pieces


def _present(codes: Codes, kinds: dict[int, RowKind]) -> dict[int, RowKind]:
    return {code: kinds[code] for code in dict.fromkeys(codes.tolist())}


def _plain(batch: pa.RecordBatch, codes: Codes, changes: dict[int, RowKind]) -> Flags:
    """Which rows show, with their event alone, all that a stream of the usual shape shows."""
    updates = [code for code, kind in changes.items() if kind.operation == "update"]
    others = [code for code in changes if code not in updates]
    logged = batch.column("logged")
    event = batch.column("event")
    is_logged = logged.is_valid().to_numpy(zero_copy_only=False)
    found = np.isin(codes, others) & ~is_logged
    if updates:
        found |= np.isin(codes, updates) & is_logged & _bare_diffs(logged)
    sizes = np.diff(_offsets(event))
    if event.null_count or (len(sizes) and sizes.max() > rawbson.MAX_INTERNAL_SIZE):
        found &= event.is_valid().to_numpy(zero_copy_only=False) & (sizes <= rawbson.MAX_INTERNAL_SIZE)
    return np.asarray(found, np.bool_)


def _offsets(column: pa.BinaryArray) -> npt.NDArray[np.int32]:
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def _bare_diffs(column: pa.BinaryArray) -> Flags:
    """`is_bare_diff` of `events.py` for a whole column."""
    found = np.zeros(len(column), np.bool_)
    offsets = _offsets(column)
    sizes = np.diff(offsets)
    rows = np.flatnonzero(sizes >= 13)
    if not len(rows):
        return found
    data = np.frombuffer(column.buffers()[2], np.uint8)
    start = offsets[rows].astype(np.int64)
    is_bare = np.ones(len(rows), np.bool_)
    for position, byte in enumerate(_O, 4):
        is_bare &= data[start + position] == byte
    inner = np.zeros(len(rows), np.int64)
    for position in range(4):
        inner |= data[start + 7 + position].astype(np.int64) << (8 * position)
    found[rows] = is_bare & (inner + 8 == sizes[rows])
    return found


def _without_uuid(raws: Sequence[bytes], to_uuid: int) -> list[bytes]:
    """Events without their `collectionUUID`."""
    read, pack = _read_int32, _pack_int32
    start = _TOKEN + to_uuid
    shown = []
    for raw in raws:
        cut = start + read(raw, _TOKEN)[0]
        shown.append(b"%b%b%b" % (pack(len(raw) - _UUID), raw[4:cut], raw[cut + _UUID :]))
    return shown


def _classic_update(raw: bytes, kind: RowKind) -> bytes:
    """An update without its `collectionUUID` and `disambiguatedPaths`."""
    cut = _TOKEN + kind.to_uuid + _read_int32(raw, _TOKEN)[0]
    key = cut + _UUID + _WALL + kind.key_lead
    start = key + _read_int32(raw, key)[0] + len(_UPDATE)
    if raw.endswith(_PATHS + _ENDS):
        size = _read_int32(raw, start)[0] - len(_PATHS)
        description = b"%b%b\0" % (_pack_int32(size), raw[start + 4 : -len(_PATHS) - len(_ENDS)])
    else:
        description = rawbson.without(raw[start:-1], (b"disambiguatedPaths",))
    return rawbson.document(raw[4:cut], raw[cut + _UUID : start], description)
