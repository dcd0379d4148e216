"""One oplog entry, read without decoding its documents.

An entry is its bytes plus the handful of facts the pipeline asks for: operation, namespace, collection
UUID, cluster time, wall time, and where its documents `o` and `o2` are. Nearly all entries of an oplog are
inserts, updates and deletes that begin with the same bytes up to `o` and end in the same four fields, so the
beginning is looked up in a table of beginnings seen before, and the end is read with one `struct` call.
Retryable writes have the fields of their session around that. Every other entry (commands, no-ops,
migrations) takes the general path.

Cluster times are 64-bit integers, seconds in the high half and increment in the low half, as in BSON.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError, CommandError
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

MALFORMED_ENTRY: Final = 8881102
PRE_IMAGE: Final = b"recordedPreImage"
"""The field of recovered entries that has the document before the change"""

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


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The facts shared by all entries of one operation on one collection.

    Compared by identity, so that stages can use it as the key of what they derive from it.
    """

    op: str
    ns: str
    ui: bytes | None

    @property
    def holds_views(self) -> bool:
        """Whether this is the collection with a database's view definitions."""
        return self.ns.endswith(".system.views") and self.collection == "system.views"

    @property
    def database(self) -> str:
        """The part before the first dot."""
        return self.ns.partition(".")[0]

    @property
    def collection(self) -> str:
        """The part after the first dot; it may contain dots itself."""
        return self.ns.partition(".")[2]


@dataclass(frozen=True, slots=True)
class OpTime:
    """An exact position in one oplog; `prevOpTime` holds one."""

    ts: int
    term: int

    @property
    def is_null(self) -> bool:
        """Whether this is the "there is no previous entry" of a session's first write."""
        return self.ts == 0


@dataclass(slots=True)
class Extras:
    """The envelope fields that plain entries do not have, and what unwinding a transaction adds.

    Not to be changed once it is part of an entry; not frozen only because building one would take longer.
    """

    lsid: bytes | None = None
    txn_number: int | None = None
    from_migrate: bool = False
    is_timeseries: bool = False
    multi_op_type: int = 0
    previous: OpTime | None = None
    in_apply_ops: bool = False
    commit_timestamp: int | None = None
    apply_ops_ts: int = 0
    """Cluster time of the `applyOps` entry that holds the operation"""
    operations_before: int = 0
    """How many operations of the transaction are in entries before that one"""
    outer_from_migrate: bool = False
    """Whether the entry that commits the operation came from a migration as a whole"""
    outer_is_timeseries: bool = False
    applied_by_user: bool = False
    """Whether it is an operation of a user's `applyOps`"""
    pre_image: bytes | None = None
    """The document before it, in an entry that was recovered from an event (`events/recovered/`)"""


PLAIN: Final = Extras()


class OplogEntry:
    """One entry; build it with `parse_entry` or `parse_inner_operation`."""

    __slots__ = ("extras", "head", "index", "o", "o2", "raw", "term", "ts", "wall")

    def __init__(
        self,
        raw: bytes,
        head: Head,
        o: bytes,
        o2: bytes | None,
        ts: int,
        term: int,
        wall: bytes,
        extras: Extras,
        index: int = 0,
    ) -> None:
        self.raw = raw
        self.head = head
        self.o = o
        self.o2 = o2
        self.ts = ts
        self.term = term
        self.wall = wall
        self.extras = extras
        self.index = index
        """The operation's place in its `applyOps`"""

    def __repr__(self) -> str:
        return f"<OplogEntry {self.head.op} {self.head.ns} at {self.ts >> 32}.{self.ts & 0xFFFFFFFF}>"

    @property
    def txn_op_index(self) -> int:
        """The operation's place in its transaction; part of the resume token."""
        return self.extras.operations_before + self.index

    @property
    def command(self) -> str:
        """The name of a command entry's command: the first field of `o`."""
        name = rawbson.first_name(self.o)
        try:
            return "" if name is None else name.decode()
        except UnicodeDecodeError:
            raise BsonError("the name of a command in an oplog entry is not UTF-8") from None

    @property
    def command_target(self) -> str | None:
        """What a command entry's command acts on: the text in the first field of `o`, if it is one."""
        return rawbson.first_text(self.o)


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
        inner = _parse(raw, self._head, needs_envelope=False)
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

    def read_inserts(self, entry: OplogEntry) -> "InsertedDocuments | None":
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
                self._remember(_parse(first, self._head, needs_envelope=False))
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


HeadFactory: TypeAlias = Callable[[str, str, bytes | None], Head]


def parse_entry(raw: bytes, make_head: HeadFactory = Head) -> OplogEntry:
    """Read one entry by walking all of its fields."""
    return _parse(raw, make_head, needs_envelope=True)


def _parse(raw: bytes, make_head: HeadFactory, *, needs_envelope: bool) -> OplogEntry:
    op: str | None = None
    ns: str | None = None
    o: bytes | None = None
    o2: bytes | None = None
    ui: bytes | None = None
    ts: int | None = None
    wall: bytes | None = None
    lsid: bytes | None = None
    txn_number: int | None = None
    previous: OpTime | None = None
    pre_image: bytes | None = None
    term, multi_op_type = -1, 0
    from_migrate = is_timeseries = False
    for kind, name, start, end in rawbson.elements(raw):
        if name == b"op" and kind == rawbson.STRING:
            op = rawbson.string_value(raw, start, end)
        elif name == b"ns" and kind == rawbson.STRING:
            ns = rawbson.string_value(raw, start, end)
        elif name == b"o" and kind == rawbson.DOCUMENT:
            o = raw[start:end]
        elif name == b"o2" and kind == rawbson.DOCUMENT:
            o2 = raw[start:end]
        elif name == b"ui" and kind == rawbson.BINARY and end - start == 21:
            ui = raw[start + 5 : end]
        elif name == b"ts" and kind == rawbson.TIMESTAMP:
            ts = int.from_bytes(raw[start:end], "little")
        elif name == b"t" and kind == rawbson.INT64:
            term = rawbson.INT64_LE.unpack_from(raw, start)[0]
        elif name == b"wall" and kind == rawbson.DATE:
            wall = raw[start:end]
        elif name == b"lsid" and kind == rawbson.DOCUMENT:
            lsid = raw[start:end]
        elif name == b"txnNumber" and kind == rawbson.INT64:
            txn_number = rawbson.INT64_LE.unpack_from(raw, start)[0]
        elif name == b"fromMigrate" and kind == rawbson.BOOL:
            from_migrate = raw[start] == 1
        elif name == b"isTimeseries" and kind == rawbson.BOOL:
            is_timeseries = raw[start] == 1
        elif name == b"multiOpType" and kind == rawbson.INT32:
            multi_op_type = _read_int32(raw, start)[0]
        elif name == b"prevOpTime" and kind == rawbson.DOCUMENT:
            previous = _optime(raw[start:end])
        elif name == PRE_IMAGE and kind == rawbson.DOCUMENT:
            pre_image = raw[start:end]
    if o is None and op == "n":
        o = rawbson.EMPTY  # the message of a no-op may be bare text, and nobody reads it
    if op is None or ns is None or o is None:
        what = "oplog entry" if needs_envelope else "operation inside an applyOps entry"
        raise CommandError(
            MALFORMED_ENTRY if needs_envelope else 40532,
            f"an {what} lacks `op`, `ns` or `o`, or has them with a wrong type",
        )
    if needs_envelope and (ts is None or wall is None):
        raise CommandError(
            MALFORMED_ENTRY, "an oplog entry lacks `ts` or `wall`, or has them with a wrong type"
        )
    extras = PLAIN
    is_flagged = from_migrate or is_timeseries or pre_image is not None
    if lsid or txn_number is not None or is_flagged or multi_op_type or previous:
        extras = Extras(
            lsid=lsid,
            txn_number=txn_number,
            from_migrate=from_migrate,
            is_timeseries=is_timeseries,
            multi_op_type=multi_op_type,
            previous=previous,
            pre_image=pre_image,
        )
    return OplogEntry(raw, make_head(op, ns, ui), o, o2, ts or 0, term, wall or bytes(8), extras)


def _optime(raw: bytes) -> OpTime:
    ts, term = 0, -1
    for kind, name, start, end in rawbson.elements(raw):
        if name == b"ts" and kind == rawbson.TIMESTAMP:
            ts = int.from_bytes(raw[start:end], "little")
        elif name == b"t" and kind == rawbson.INT64:
            term = rawbson.INT64_LE.unpack_from(raw, start)[0]
    return OpTime(ts, term)
