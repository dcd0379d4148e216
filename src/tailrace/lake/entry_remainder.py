"""The column `entry_rest`: what an event does not show of its oplog entry, and a stream must know.

It is null for most rows: the events of inserts, replacements and deletes, alone or in a vectored batch,
retryable or not, show everything. Else it is a BSON document with some of these fields:

================= ===================================================================================
entry             the whole oplog entry: commands, no-ops, view definitions, deferred entries, and changes
                  that are so damaged that they cannot be shown
operation, wall   the same for an operation inside of a transaction, and the wall time of its commit
o                 the logged diff of an update
lsid, txnNumber   the transaction's session
commitTimestamp   of a prepared transaction
applyOpsTs        cluster time of the entry that holds the operation, if another one commits it
operationsBefore  how many operations of the transaction are in entries before that one
fromMigrate, isTimeseries            flags of the operation
outerFromMigrate, outerIsTimeseries  flags of the entry that commits it
appliedByUser     whether it is an operation of a user's `applyOps`
================= ===================================================================================
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import ChangeEvent
from tailrace.events.oplog_entry import PLAIN, Extras, OplogEntry
from tailrace.lake.bulk.splicing import have_bytes, items

_FLAGS: Final = {
    b"fromMigrate": "from_migrate",
    b"isTimeseries": "is_timeseries",
    b"outerFromMigrate": "outer_from_migrate",
    b"outerIsTimeseries": "outer_is_timeseries",
    b"appliedByUser": "applied_by_user",
}
_read_int32 = rawbson.INT32_LE.unpack_from
BARE_DIFF_LEAD: Final = b"\x03o\0"
"""What comes between the size and the delta in the remainder of a plain update, ``{o: <delta>}``"""
LSID_LEAD: Final = b"\x03lsid\0"
NUMBER_LEAD: Final = b"\x12txnNumber\0"
"""What comes before the two fields of a transaction that is in one entry; `_elements` writes all fields"""
_DELTA: Final = 4 + len(BARE_DIFF_LEAD)
_TRUE: Final = b"\x01"


def entry_rest(event: ChangeEvent, *, whole: bool = False) -> bytes | None:
    """What has to be stored of an event's entry besides the event; with ``whole``, all of it."""
    extras = event.entry.extras
    if event.ddl is None and not whole:
        update = event.update
        if extras is PLAIN or not _matters(extras, event.entry.ts):
            return None if update is None else rawbson.document(BARE_DIFF_LEAD, update)
        parts = [] if update is None else [rawbson.element(rawbson.DOCUMENT, b"o", update)]
    elif extras.in_apply_ops:
        parts = [
            rawbson.element(rawbson.DOCUMENT, b"operation", _operation(event.entry)),
            rawbson.element(rawbson.DATE, b"wall", event.entry.wall),
        ]
    else:
        return rawbson.document(rawbson.element(rawbson.DOCUMENT, b"entry", event.entry.raw))
    return rawbson.document(*parts, *_elements(extras, event.entry.ts))


def bare_delta(rest: bytes) -> bytes | None:
    """The delta of a remainder that has nothing else; None for any other."""
    is_bare = rest.startswith(BARE_DIFF_LEAD, 4) and _read_int32(rest, _DELTA)[0] + _DELTA + 1 == len(rest)
    return rest[_DELTA:-1] if is_bare else None


def have_bare_deltas(column: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """For which rows of the column `bare_delta` is not None."""
    found = np.zeros(len(column), np.bool_)
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    sizes = np.diff(offsets)
    rows = np.flatnonzero(sizes > _DELTA + len(rawbson.EMPTY))
    if len(rows):
        data = np.frombuffer(column.buffers()[2], np.uint8)
        start = offsets[rows].astype(np.int64)
        is_lead = have_bytes(data, start + 4, BARE_DIFF_LEAD)
        found[rows] = is_lead & (items(data, "<i4")[start + _DELTA] + _DELTA + 1 == sizes[rows])
    return found


def _matters(extras: Extras, ts: int) -> bool:
    """Whether a document change is treated in another way because of what its entry carries."""
    if extras.from_migrate or extras.is_timeseries:
        return True
    # The session of a retryable write has columns of its own.
    return extras.in_apply_ops and (
        extras.lsid is not None
        or extras.txn_number is not None
        or extras.commit_timestamp is not None
        or extras.apply_ops_ts != ts
        or extras.operations_before != 0
        or extras.outer_from_migrate
        or extras.outer_is_timeseries
        or extras.applied_by_user
    )


def _operation(entry: OplogEntry) -> bytes:
    if entry.raw != rawbson.EMPTY:
        return entry.raw
    # The end of a transaction is in no oplog.
    return rawbson.document(
        rawbson.string(b"op", entry.head.op.encode()),
        rawbson.string(b"ns", entry.head.ns.encode()),
        rawbson.element(rawbson.DOCUMENT, b"o2", entry.o2 or rawbson.EMPTY),
    )


def _elements(extras: Extras, ts: int) -> list[bytes]:
    parts = []
    if extras.in_apply_ops:
        if extras.lsid is not None:
            parts.append(rawbson.element(rawbson.DOCUMENT, b"lsid", extras.lsid))
        if extras.txn_number is not None:
            number = rawbson.INT64_LE.pack(extras.txn_number)
            parts.append(rawbson.element(rawbson.INT64, b"txnNumber", number))
        if extras.commit_timestamp is not None:
            parts.append(_time(b"commitTimestamp", extras.commit_timestamp))
        if extras.apply_ops_ts != ts:
            parts.append(_time(b"applyOpsTs", extras.apply_ops_ts))
        if extras.operations_before:
            before = rawbson.INT64_LE.pack(extras.operations_before)
            parts.append(rawbson.element(rawbson.INT64, b"operationsBefore", before))
    parts += [
        rawbson.element(rawbson.BOOL, name, _TRUE)
        for name, attribute in _FLAGS.items()
        if getattr(extras, attribute)
    ]
    return parts


def _time(name: bytes, cluster_time: int) -> bytes:
    return rawbson.element(rawbson.TIMESTAMP, name, rawbson.UINT64_LE.pack(cluster_time))


class EntryRest:
    """A value of the column, read back."""

    __slots__ = ("entry", "extras", "operation", "update", "wall")

    def __init__(self, raw: bytes | None, ts: int, *, in_apply_ops: bool) -> None:
        """``ts`` is the event's cluster time; ``in_apply_ops`` is whether `txn_index` is not null."""
        extras = Extras(in_apply_ops=True, apply_ops_ts=ts) if in_apply_ops else Extras()
        is_plain = not in_apply_ops
        self.entry: bytes | None = None
        self.operation: bytes | None = None
        self.update: bytes | None = None
        self.wall = bytes(8)
        for _, name, start, end in () if raw is None else rawbson.elements(raw):
            value = raw[start:end] if raw is not None else b""
            if name == b"o":
                self.update = value
            elif name == b"entry":
                self.entry = value
            elif name == b"operation":
                self.operation = value
            elif name == b"wall":
                self.wall = value
            else:
                is_plain = False
                _set(extras, name, value)
        self.extras = PLAIN if is_plain else extras


def _set(extras: Extras, name: bytes, value: bytes) -> None:
    if name in _FLAGS:
        setattr(extras, _FLAGS[name], value == _TRUE)
    elif name == b"lsid":
        extras.lsid = value
    elif name == b"txnNumber":
        extras.txn_number = rawbson.INT64_LE.unpack(value)[0]
    elif name == b"commitTimestamp":
        extras.commit_timestamp = rawbson.UINT64_LE.unpack(value)[0]
    elif name == b"applyOpsTs":
        extras.apply_ops_ts = rawbson.UINT64_LE.unpack(value)[0]
    elif name == b"operationsBefore":
        extras.operations_before = rawbson.INT64_LE.unpack(value)[0]
