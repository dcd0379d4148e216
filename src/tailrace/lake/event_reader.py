"""Rows of the history back to canonical events: they render and filter as if they came from the oplog.

Most rows are document changes that tell everything: their documents are slices of the event. For all others
the logged entry is read and transformed again, by the same code that did it for the pipeline.
"""

from typing import Final

import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.errors import HistoryError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.oplog_entry import PLAIN, EntryReader, Extras, Head, OplogEntry
from tailrace.events.stages.transform.document import Transform
from tailrace.lake.deferred_entries import untold
from tailrace.lake.entry_remainder import Logged
from tailrace.lake.row_kinds import Other, RowKind, RowKinds

_read_int32 = rawbson.INT32_LE.unpack_from
_TOKEN: Final = 9
"""Where the token's document begins in an event that begins with `_id`"""
_ID: Final = b"\x03_id\0"
_FULL_DOCUMENT: Final = b"\x03fullDocument\0"
_O: Final = b"\x03o\0"
_DIFF: Final = 7
"""Where the diff begins in the `logged` of a plain update: ``{o: <diff>}``"""
_UNKNOWN_TERM: Final = -1
"""The history does not store terms; no stage after unwinding needs one."""
_CONTAINER: Final = Head("c", "admin.$cmd", None)


class EventReader:
    """Gives events back; remembers the kinds it has met."""

    def __init__(self) -> None:
        self._kinds = RowKinds()
        self._entries = EntryReader()
        self._transforms: dict[str, Transform] = {}

    def events(self, batch: pa.RecordBatch) -> list[ChangeEvent]:
        """The events of a batch with the columns of `STREAM_COLUMNS`, one for each row.

        An untold entry is one for which `is_untold` holds.
        """
        codes, kinds = self._kinds.of(batch)
        columns = [
            batch.column(name).to_pylist()
            for name in ("event", "logged", "cluster_time", "txn_index", "pre_image", "shard")
        ]
        return [self._event(kinds[code], *row) for code, *row in zip(codes.tolist(), *columns, strict=True)]

    def _event(
        self,
        kind: RowKind | Other,
        shown: bytes | None,
        raw: bytes | None,
        ts: int,
        txn_index: int | None,
        pre_image: bytes | None,
        shard: str,
    ) -> ChangeEvent:
        if isinstance(kind, RowKind) and shown is not None and (raw is None or is_bare_diff(raw)):
            diff = None if raw is None else raw[_DIFF:-1]
            if txn_index is None:
                event = _change(kind, shown, diff, ts, PLAIN, 0)
            else:
                extras = Extras(in_apply_ops=True, apply_ops_ts=ts)
                event = _change(kind, shown, diff, ts, extras, txn_index)
        else:
            logged = Logged(raw, ts, in_apply_ops=txn_index is not None)
            index = 0 if txn_index is None else txn_index - logged.extras.operations_before
            if kind is Other.UNTOLD:
                return untold(self._entries.read(logged.entry or b""), shard)
            if isinstance(kind, RowKind) and logged.entry is None and logged.operation is None:
                event = _change(kind, shown or b"", logged.update, ts, logged.extras, index)
            else:
                event = self._transform(shard).transform(self._entry(logged, ts, index))
        event.pre_image = pre_image
        event.shard = shard
        return event

    def _entry(self, logged: Logged, ts: int, index: int) -> OplogEntry:
        """The entry or operation that was kept as a whole."""
        if logged.entry is not None:
            return self._entries.read(logged.entry)
        operation = logged.operation
        if operation is None:
            raise HistoryError("a row of the history lacks what was logged; was the table changed by hand?")
        outer = OplogEntry(b"", _CONTAINER, b"", None, ts, _UNKNOWN_TERM, logged.wall, PLAIN)
        if rawbson.text(operation, rawbson.find(operation, b"op")) == "n":
            ns = rawbson.text(operation, rawbson.find(operation, b"ns")) or ""
            payload = rawbson.subdocument(operation, b"o2") or rawbson.EMPTY
            return self._entries.synthetic(ns, payload, outer, logged.extras)
        return self._entries.read_inner(operation, outer, logged.extras, index)

    def _transform(self, shard: str) -> Transform:
        if shard not in self._transforms:
            self._transforms[shard] = Transform(shard=shard)
        return self._transforms[shard]


def is_bare_diff(logged: bytes) -> bool:
    """Whether this is the `logged` of an update that has nothing else to tell: ``{o: <diff>}``."""
    return logged.startswith(_O, 4) and _read_int32(logged, _DIFF)[0] + _DIFF + 1 == len(logged)


def _change(
    kind: RowKind, shown: bytes, diff: bytes | None, ts: int, extras: Extras, index: int
) -> ChangeEvent:
    """A document change, cut out of the event that shows it."""
    if shown.startswith(_ID, 4) and extras.commit_timestamp is None:
        position = _TOKEN + _read_int32(shown, _TOKEN)[0] + kind.to_wall
    else:
        position = _wall_position(shown)
    wall = shown[position : position + 8]
    position += 8
    full = None
    if shown.startswith(_FULL_DOCUMENT, position):
        position += len(_FULL_DOCUMENT)
        end = position + _read_int32(shown, position)[0]
        full = shown[position:end]
        position = end
    position += kind.key_lead
    key = shown[position : position + _read_int32(shown, position)[0]]
    is_delete = kind.operation == "delete"
    o = key if is_delete else full if diff is None else diff
    o2 = None if is_delete else key
    entry = OplogEntry(b"", kind.head, o or rawbson.EMPTY, o2, ts, _UNKNOWN_TERM, wall, extras, index)
    return ChangeEvent(entry, kind.kind, key, full, diff)


def _wall_position(shown: bytes) -> int:
    found = rawbson.find(shown, b"wallTime")
    if found is None:
        raise HistoryError("an event of the history has no wallTime; was the table changed by hand?")
    return found[2]
