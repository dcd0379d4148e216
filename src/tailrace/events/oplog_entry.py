"""One oplog entry, read without decoding its documents.

An entry is its bytes plus the handful of facts the pipeline asks for: operation, namespace, collection
UUID, cluster time, wall time, and where its documents `o` and `o2` are. `EntryReader` (`entry_reader.py`)
reads many entries.

Cluster times are 64-bit integers, seconds in the high half and increment in the low half, as in BSON.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError, CommandError

MALFORMED_ENTRY: Final = 8881102
FIRST_MESSAGE: Final = "initiating set"
"""The message of the no-op that a replica set's oplog begins with: nothing was ever written before it"""
PRE_IMAGE: Final = b"recordedPreImage"
"""The field of recovered entries that has the document before the change"""

_FIRST_FIELD: Final = rawbson.field(rawbson.document(rawbson.string(b"msg", FIRST_MESSAGE.encode())), b"msg")
_read_int32 = rawbson.INT32_LE.unpack_from


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


HeadFactory: TypeAlias = Callable[[str, str, bytes | None], Head]


def parse_entry(raw: bytes, make_head: HeadFactory = Head) -> OplogEntry:
    """Read one entry by walking all of its fields."""
    return _parse(raw, make_head, needs_envelope=True)


def parse_inner_operation(raw: bytes, make_head: HeadFactory = Head) -> OplogEntry:
    """Read an operation inside `applyOps`, which has no times of its own, in the same way."""
    return _parse(raw, make_head, needs_envelope=False)


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


def is_first_entry(entry: OplogEntry) -> bool:
    """Return whether this entry begins the oplog of its replica set."""
    return entry.head.op == "n" and rawbson.field(entry.o, b"msg") == _FIRST_FIELD


def goes_back_to(oldest: bytes, start: int) -> bool:
    """Return whether an oplog with this oldest entry has everything from a cluster time on."""
    entry = parse_entry(oldest)
    return entry.ts <= start or is_first_entry(entry)
