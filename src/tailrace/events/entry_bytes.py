"""Write oplog entries as bytes, with every field where MongoDB's writer puts it.

An `Operation` is the part that an entry and an element of an `applyOps` array share; `entry_bytes` puts the
session's fields before it and its times after it. Documents are passed as finished BSON: what was stored and
what was logged are the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.events.layout.entry import tail
from tailrace.events.oplog_entry import PRE_IMAGE, OpTime

UUID_SUBTYPE: Final = b"\x04"
NULL_OPTIME: Final = OpTime(0, -1)
"""What `prevOpTime` holds in the first entry of a session or a transaction."""
APPLIED_SEPARATELY: Final = 1
"""`multiOpType` of vectored inserts: `prevOpTime` is the session's last write, not a part of this one."""

_TRUE: Final = b"\x08%b\0\x01"
_FALSE: Final = b"\x08%b\0\x00"
_OPTIME: Final = Struct("<i4sQ3sqx")


@dataclass(slots=True)
class Operation:
    """One insert, update, delete, command or no-op, inside or outside of a transaction."""

    op: str
    ns: str
    o: bytes
    uuid: bytes | None = None
    o2: bytes | None = None
    is_timeseries: bool = False
    needs_retry_image: str | None = None
    destined_recipient: str | None = None
    statement_ids: Sequence[int] = ()
    from_migrate: bool | None = None
    pre_image: bytes | None = None
    """The document before it, in entries that were recovered from events; no server writes it."""

    def elements(self) -> bytes:
        """The fields between the session's and the time's, in the order of the entry's definition."""
        parts = [_text(b"op", self.op), _text(b"ns", self.ns)]
        if self.uuid is not None:
            parts.append(uuid_element(b"ui", self.uuid))
        parts.append(rawbson.element(rawbson.DOCUMENT, b"o", self.o))
        if self.o2 is not None:
            parts.append(rawbson.element(rawbson.DOCUMENT, b"o2", self.o2))
        if self.is_timeseries:
            parts.append(_TRUE % b"isTimeseries")
        if self.needs_retry_image is not None:
            parts.append(_text(b"needsRetryImage", self.needs_retry_image))
        if self.destined_recipient is not None:
            parts.append(_text(b"destinedRecipient", self.destined_recipient))
        if len(self.statement_ids) == 1:
            parts.append(_int32(b"stmtId", self.statement_ids[0]))
        elif self.statement_ids:
            items = rawbson.document(*(_int32(b"%d" % n, s) for n, s in enumerate(self.statement_ids)))
            parts.append(rawbson.element(rawbson.ARRAY, b"stmtId", items))
        if self.from_migrate is not None:
            parts.append((_TRUE if self.from_migrate else _FALSE) % b"fromMigrate")
        if self.pre_image is not None:
            parts.append(rawbson.element(rawbson.DOCUMENT, PRE_IMAGE, self.pre_image))
        return b"".join(parts)


def entry_bytes(
    operation: Operation,
    time: OpTime,
    wall: int,
    *,
    session: bytes = b"",
    previous: OpTime | None = None,
    multi_op_type: int | None = None,
) -> bytes:
    """A whole entry; ``session`` is what `session_elements` gives, ``wall`` is in milliseconds."""
    return entry_around(
        operation.elements(), time, wall, session=session, previous=previous, multi_op_type=multi_op_type
    )


def entry_around(
    elements: bytes,
    time: OpTime,
    wall: int,
    *,
    session: bytes = b"",
    previous: OpTime | None = None,
    multi_op_type: int | None = None,
) -> bytes:
    """The same for an operation's finished elements."""
    parts = [
        session,
        elements,
        tail(time.ts, time.term, wall),
    ]
    if previous is not None:
        parts.append(rawbson.element(rawbson.DOCUMENT, b"prevOpTime", optime_document(previous)))
    if multi_op_type is not None:
        parts.append(_int32(b"multiOpType", multi_op_type))
    return rawbson.document(*parts)


def session_elements(lsid: bytes, transaction_number: int) -> bytes:
    """`lsid` and `txnNumber`; ``lsid`` is the finished document ``{id, uid}``."""
    number = rawbson.INT64_LE.pack(transaction_number)
    return rawbson.element(rawbson.DOCUMENT, b"lsid", lsid) + rawbson.element(
        rawbson.INT64, b"txnNumber", number
    )


def command(database: str, o: dict[str, Any], **fields: Any) -> Operation:
    """A command entry on a database."""
    return Operation("c", f"{database}.$cmd", documents.encode(o), **fields)


def apply_ops(
    operations: Sequence[Operation], *, from_migrate: bool | None = None, **flags: bool | int
) -> Operation:
    """An `applyOps` entry; ``flags`` are `partialTxn`, `prepare` and `count`, in the order to be written."""
    array = operations_array([operation.elements() for operation in operations])
    parts = [rawbson.element(rawbson.ARRAY, b"applyOps", array)]
    for name, value in flags.items():
        if isinstance(value, bool):
            parts.append(_TRUE % name.encode())
        else:
            parts.append(rawbson.element(rawbson.INT64, name.encode(), rawbson.INT64_LE.pack(value)))
    return Operation("c", "admin.$cmd", rawbson.document(*parts), from_migrate=from_migrate)


def operations_array(operations: Sequence[bytes]) -> bytes:
    """The array of an `applyOps` entry; each operation is its finished elements."""
    pack = rawbson.INT32_LE.pack
    return rawbson.document(
        *[
            b"\x03%d\0%b%b\0" % (number, pack(len(elements) + 5), elements)
            for number, elements in enumerate(operations)
        ]
    )


def optime_document(optime: OpTime) -> bytes:
    """`{ts, t}`."""
    return _OPTIME.pack(_OPTIME.size, b"\x11ts\0", optime.ts, b"\x12t\0", optime.term)


def uuid_element(name: bytes, uuid: bytes) -> bytes:
    """A UUID as binary subtype 4."""
    return binary_element(name, UUID_SUBTYPE, uuid)


def binary_element(name: bytes, subtype: bytes, data: bytes) -> bytes:
    return rawbson.element(rawbson.BINARY, name, rawbson.INT32_LE.pack(len(data)) + subtype + data)


def _text(name: bytes, text: str) -> bytes:
    return rawbson.string(name, text.encode())


def _int32(name: bytes, value: int) -> bytes:
    return rawbson.element(rawbson.INT32, name, rawbson.INT32_LE.pack(value))
