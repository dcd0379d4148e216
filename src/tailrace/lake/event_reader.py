"""Turn rows of the history into canonical events, equal to those made from the oplog.

Most rows are document changes that show everything: their documents are slices of the event. For all others
the stored entry is read and transformed again, by the code that the pipeline used.
"""

from typing import Final

import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.errors import HistoryError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.entry_reader import EntryReader
from tailrace.events.layout.event import NO_SESSION, session_of
from tailrace.events.layout.template import DOCUMENT, KEY, WALL
from tailrace.events.oplog_entry import PLAIN, Extras, Head, OplogEntry
from tailrace.events.stages.transform.document import Transform
from tailrace.lake.deferred_entries import deferred
from tailrace.lake.entry_remainder import EntryRest, bare_delta
from tailrace.lake.row_kinds import Other, RowKind, RowKinds
from tailrace.lake.schema import times_of

_UNKNOWN_TERM: Final = -1
"""The history does not store terms; no stage after unwinding needs one."""
_CONTAINER: Final = Head("c", "admin.$cmd", None)


class EventReader:
    """Reads events; remembers their kinds."""

    def __init__(self) -> None:
        self._kinds = RowKinds()
        self._entries = EntryReader()
        self._transforms: dict[str, Transform] = {}

    def events(self, batch: pa.RecordBatch) -> list[ChangeEvent]:
        """The events of a batch with the columns of `STREAM_COLUMNS`, one for each row.

        `is_deferred` is true for deferred entries.
        """
        codes, kinds = self._kinds.of(batch)
        columns = [
            batch.column(name).to_pylist()
            for name in ("event", "entry_rest", "txn_index", "pre_image", "shard", "session", "txn_number")
        ]
        return [
            self._event(kinds[code], *row)
            for code, *row in zip(codes.tolist(), times_of(batch).tolist(), *columns, strict=True)
        ]

    def _event(
        self,
        kind: RowKind | Other,
        ts: int,
        shown: bytes | None,
        raw: bytes | None,
        txn_index: int | None,
        pre_image: bytes | None,
        shard: str,
        session: bytes | None,
        number: int | None,
    ) -> ChangeEvent:
        delta = None if raw is None else bare_delta(raw)
        if isinstance(kind, RowKind) and shown is not None and (raw is None or delta is not None):
            if txn_index is None:
                is_plain = session is None and number is None
                extras = PLAIN if is_plain else Extras(lsid=session, txn_number=number)
                event = _change(kind, shown, delta, ts, extras, 0)
            else:
                extras = Extras(in_apply_ops=True, apply_ops_ts=ts)
                event = _change(kind, shown, delta, ts, extras, txn_index)
        else:
            rest = EntryRest(raw, ts, in_apply_ops=txn_index is not None)
            if txn_index is None and rest.extras is not PLAIN:
                rest.extras.lsid, rest.extras.txn_number = session, number
            index = 0 if txn_index is None else txn_index - rest.extras.operations_before
            if kind is Other.DEFERRED:
                return deferred(self._entries.read(rest.entry or b""), shard)
            if isinstance(kind, RowKind) and rest.entry is None and rest.operation is None:
                event = _change(kind, shown or b"", rest.update, ts, rest.extras, index)
            else:
                event = self._transform(shard).transform(self._entry(rest, ts, index))
        event.pre_image = pre_image
        event.shard = shard
        return event

    def _entry(self, rest: EntryRest, ts: int, index: int) -> OplogEntry:
        """The entry or operation that was stored as a whole."""
        if rest.entry is not None:
            return self._entries.read(rest.entry)
        operation = rest.operation
        if operation is None:
            raise HistoryError("a row of the history lacks its entry_rest; was the table changed by hand?")
        outer = OplogEntry(b"", _CONTAINER, b"", None, ts, _UNKNOWN_TERM, rest.wall, PLAIN)
        if rawbson.text(operation, rawbson.find(operation, b"op")) == "n":
            ns = rawbson.text(operation, rawbson.find(operation, b"ns")) or ""
            payload = rawbson.subdocument(operation, b"o2") or rawbson.EMPTY
            return self._entries.synthetic(ns, payload, outer, rest.extras)
        return self._entries.read_inner(operation, outer, rest.extras, index)

    def _transform(self, shard: str) -> Transform:
        if shard not in self._transforms:
            self._transforms[shard] = Transform(shard=shard)
        return self._transforms[shard]


def _change(
    kind: RowKind, shown: bytes, delta: bytes | None, ts: int, extras: Extras, index: int
) -> ChangeEvent:
    """A document change, cut out of the event that shows it."""
    stored = kind.stored(NO_SESSION if extras is PLAIN else session_of(extras))
    if extras is PLAIN or (extras.commit_timestamp is None and not extras.from_migrate):
        wall, full, key = stored.reader(WALL, DOCUMENT, KEY)(shown)
    else:
        found = {name: shown[start:end] for _, name, start, end in rawbson.elements(shown)}
        names = {field.hole: field.name.encode() for field in stored.fields}
        wall, full, key = (found.get(names.get(hole, b"")) for hole in (WALL, DOCUMENT, KEY))
    is_delete = kind.operation == "delete"
    o = key if is_delete else full if delta is None else delta
    o2 = None if is_delete else key
    entry = OplogEntry(b"", kind.head, o or rawbson.EMPTY, o2, ts, _UNKNOWN_TERM, wall, extras, index)
    return ChangeEvent(entry, kind.kind, key, full, delta)
