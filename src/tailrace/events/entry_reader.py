"""Read the entries of an oplog, quickly if they begin as others did.

Nearly all entries of an oplog are inserts, updates and deletes that begin with the same bytes up to `o` and
end in the same four fields, so the beginning is looked up in a table of beginnings seen before, and the end
is read with one `struct` call. Retryable writes have the fields of their session around that. Every other
entry (commands, no-ops, migrations) takes the general path.
"""

import struct
from dataclasses import replace
from typing import Final, NamedTuple

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.layout.entry import (
    NS_SIZE,
    O2_LEAD,
    O_BASE,
    O_LEAD,
    OP_LEAD,
    TAIL_LEADS,
    TAIL_SIZE,
    TAIL_SLICES,
)
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import (
    PLAIN,
    Extras,
    Head,
    OplogEntry,
    OpTime,
    parse_entry,
    parse_inner_operation,
)

_read_tail = TAIL_SLICES.unpack_from
_read_int32 = rawbson.INT32_LE.unpack_from
_TS, _T, _V, _WALL = TAIL_LEADS

_OPERATIONS: Final = b"\x04applyOps\0"
_STATEMENT: Final = b"\x10stmtId\0"
_STATEMENT_SIZE: Final = len(_STATEMENT) + 4 + 1
_LSID: Final = b"\x03lsid\0"
_NUMBER: Final = b"\x12txnNumber\0"
_PREVIOUS: Final = struct.Struct("<16s4sQ3sq2s")
"""The end of a retryable write: `prevOpTime` and the final NUL"""
_PREVIOUS_LEADS: Final = (b"\x03prevOpTime\0\x1c\0\0\0", b"\x11ts\0", b"\x12t\0", b"\0\0")
_RETRYABLE_SIZE: Final = len(_STATEMENT) + 4 + TAIL_SIZE - 1 + _PREVIOUS.size
"""How much comes after the documents of a retryable write"""


class InsertedDocuments(NamedTuple):
    """The inserts of a vectored entry, in order; the position of one is its index in the `applyOps`."""

    head: Head
    documents: list[bytes]
    keys: list[bytes]


class EntryReader:
    """Turns raw entries into `OplogEntry` objects, remembering the beginnings it has seen.

    >>> import bson
    >>> raw = bson.encode({"op": "i", "ns": "shop.orders", "ui": bson.Binary(bytes(16), 4), "o": {"_id": 1},
    ...     "o2": {"_id": 1}, "ts": bson.Timestamp(7, 1), "t": bson.Int64(1), "v": bson.Int64(2),
    ...     "wall": bson.DatetimeMS(0)})
    >>> EntryReader().read(raw)
    <OplogEntry i shop.orders at 7.1>
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}
        self._last: tuple[bytes, Head | None, int] = (b"", None, 0)
        self._by_facts: dict[tuple[str, str, bytes | None], Head] = {}

    def read(self, raw: bytes) -> OplogEntry:
        """The entry whose BSON this is."""
        try:
            if raw.startswith(_LSID, 4):
                return self._read_retryable(raw) or self._read_any(raw)
            head, o, o2, end = self._beginning(raw)
            if head is not None and end + TAIL_SIZE == len(raw):
                ts_lead, ts, t_lead, term, v_lead, _, wall_lead, wall, nul = _read_tail(raw, end)
                if ts_lead == _TS and t_lead == _T and v_lead == _V and wall_lead == _WALL and not nul:
                    return OplogEntry(raw, head, o, o2, ts, term, wall, PLAIN)
        except (IndexError, struct.error):
            pass  # not a plain entry, or not BSON: the general road finds out which
        return self._read_any(raw)

    def _read_retryable(self, raw: bytes) -> OplogEntry | None:
        """A retryable write: between the fields of its session is a plain entry with a statement's number."""
        start = 4 + len(_LSID)
        end = start + _read_int32(raw, start)[0]
        lsid = raw[start:end]
        number = end + len(_NUMBER)
        if not raw.startswith(_NUMBER, end):
            return None
        head, o, o2, end = self._beginning(raw, number + 8 - 4)
        if head is None or len(raw) != end + _RETRYABLE_SIZE or not raw.startswith(_STATEMENT, end):
            return None
        tail = end + len(_STATEMENT) + 4
        ts_lead, ts, t_lead, term, v_lead, _, wall_lead, wall, _ = _read_tail(raw, tail)
        lead, time_lead, before, term_lead, term_before, ends = _PREVIOUS.unpack_from(
            raw, tail + TAIL_SIZE - 1
        )
        if (
            (ts_lead, t_lead, v_lead, wall_lead) != TAIL_LEADS
            or (lead, time_lead, term_lead, ends) != _PREVIOUS_LEADS
            or len(lsid) < len(rawbson.EMPTY)
        ):
            return None
        txn_number = rawbson.INT64_LE.unpack_from(raw, number)[0]
        extras = Extras(lsid=lsid, txn_number=txn_number, previous=OpTime(before, term_before))
        return OplogEntry(raw, head, o, o2, ts, term, wall, extras)

    def _beginning(self, raw: bytes, offset: int = 0) -> tuple[Head | None, bytes, bytes | None, int]:
        """Head, `o`, `o2` and where they end, if the entry begins like one seen before; else no head.

        ``offset`` is how many bytes come before `op`.
        """
        beginning, head, start = self._last
        start += offset
        if head is None or not raw.startswith(beginning, 4 + offset):
            # If `op` and `ns` do not come first, the slice is some other bytes and not in the table.
            size = NS_SIZE + offset
            start = O_BASE + offset + raw[size] + (raw[size + 1] << 8)
            beginning = raw[4 + offset : start]
            head = self._heads.get(beginning)
            if head is None:
                return None, b"", None, 0
            self._last = beginning, head, start - offset
        end = start + _read_int32(raw, start)[0]
        if raw[end : end + 4] != O2_LEAD:
            return head, raw[start:end], None, end
        start_o2 = end + 4
        end_o2 = start_o2 + _read_int32(raw, start_o2)[0]
        return head, raw[start:end], raw[start_o2:end_o2], end_o2

    def _read_any(self, raw: bytes) -> OplogEntry:
        entry = parse_entry(raw, self._head)
        self._remember(entry)
        return entry

    def _remember(self, entry: OplogEntry) -> None:
        """Remember the beginning of a document change, if it is of the usual form."""
        raw, head = entry.raw, entry.head
        if head.ui is None or head.op not in ("i", "u", "d"):
            return
        lsid = entry.extras.lsid
        offset = 0 if lsid is None else len(_LSID) + len(lsid) + len(_NUMBER) + 8
        if raw.startswith(OP_LEAD, 4 + offset):
            size = NS_SIZE + offset
            start = O_BASE + offset + raw[size] + (raw[size + 1] << 8)
            if raw[start - len(O_LEAD) : start] == O_LEAD and raw.startswith(entry.o, start):
                remember(self._heads, raw[4 + offset : start], head)

    def _head(self, op: str, ns: str, ui: bytes | None) -> Head:
        facts = (op, ns, ui)
        return self._by_facts.get(facts) or remember(self._by_facts, facts, Head(op, ns, ui))

    def read_inner(self, raw: bytes, outer: OplogEntry, extras: Extras, index: int) -> OplogEntry:
        """An operation inside `applyOps`; its times are those of the entry that commits it.

        ``extras`` is shared by all operations of the `applyOps`; flags of one operation are added to a copy.
        """
        try:
            head, o, o2, end = self._beginning(raw)
            rest = len(raw) - end
            # After the documents there is nothing, or the statement's number in a retryable batch.
            if head is not None and (
                rest == 1 or (rest == _STATEMENT_SIZE and raw.startswith(_STATEMENT, end))
            ):
                return OplogEntry(raw, head, o, o2, outer.ts, outer.term, outer.wall, extras, index)
        except (IndexError, struct.error):
            pass  # as in `read`
        inner = parse_inner_operation(raw, self._head)
        self._remember(inner)
        own = inner.extras
        if own.from_migrate or own.is_timeseries or own.pre_image is not None:
            extras = replace(
                extras,
                from_migrate=own.from_migrate,
                is_timeseries=own.is_timeseries,
                pre_image=own.pre_image,
            )
        return OplogEntry(raw, inner.head, inner.o, inner.o2, outer.ts, outer.term, outer.wall, extras, index)

    def read_inserts(self, entry: OplogEntry) -> InsertedDocuments | None:
        """What a vectored entry inserts, if it has only plain inserts into one collection."""
        o = entry.o
        extras = entry.extras
        is_batch = extras.multi_op_type == 1 or (extras.lsid is None and extras.previous is None)
        if not is_batch or extras.from_migrate or not o.startswith(_OPERATIONS, 4):
            return None
        documents: list[bytes] = []
        keys: list[bytes] = []
        position = 4 + len(_OPERATIONS)
        try:
            end_of_all = position + _read_int32(o, position)[0]
            position += 4
            operation = o.index(0, position) + 1
            first = o[operation : operation + _read_int32(o, operation)[0]]
            head, _, _, _ = self._beginning(first)
            if head is None:
                self._remember(parse_inner_operation(first, self._head))
                head, _, _, _ = self._beginning(first)
            if head is None or head.op != "i" or head.holds_views or end_of_all + 1 != len(o):
                return None
            beginning, _, offset = self._last
            while position < end_of_all - 1:
                operation = o.index(0, position + 1) + 1
                start = operation + offset
                end = start + _read_int32(o, start)[0]
                end_of_key = end + 4 + _read_int32(o, end + 4)[0]
                next_one = operation + _read_int32(o, operation)[0]
                rest = next_one - end_of_key
                if (
                    o[position] != rawbson.DOCUMENT
                    or not o.startswith(beginning, operation + 4)
                    or o[end : end + 4] != O2_LEAD
                    or (rest != 1 and not (rest == _STATEMENT_SIZE and o.startswith(_STATEMENT, end_of_key)))
                ):
                    return None
                documents.append(o[start:end])
                keys.append(o[end + 4 : end_of_key])
                position = next_one
        except (CommandError, IndexError, ValueError, struct.error):
            return None  # the general road raises the error
        return InsertedDocuments(head, documents, keys)

    def synthetic(self, ns: str, o2: bytes, outer: OplogEntry, extras: Extras) -> OplogEntry:
        """A no-op entry that is in no oplog, made while a transaction is unwound."""
        return OplogEntry(
            rawbson.EMPTY,
            self._head("n", ns, None),
            rawbson.EMPTY,
            o2,
            outer.ts,
            outer.term,
            outer.wall,
            extras,
        )
