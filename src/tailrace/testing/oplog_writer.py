"""Oplog entries as bytes, every field where MongoDB's writer puts it.

An `Operation` is what an entry and an element of an `applyOps` array have in common. `OplogWriter` gives it
a time and an envelope, and keeps the entries in order. Documents are handed over as finished BSON: what was
stored and what was logged are the same bytes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.bsonio import documents
from tailrace.bsonio import raw as rawbson

FIRST_SECOND: Final = 1_700_000_000
UUID_SUBTYPE: Final = b"\x04"
NULL_OPTIME: Final = (0, -1)

OpTime = tuple[int, int]
"""(timestamp as a 64-bit number, term)"""


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
        return b"".join(parts)


@dataclass(slots=True)
class Session:
    """A logical session: where its retryable writes and transactions stand."""

    uuid: bytes
    user_hash: bytes
    transaction_number: int = 0
    last: OpTime = NULL_OPTIME

    def elements(self) -> bytes:
        """`lsid` and `txnNumber`."""
        lsid = rawbson.document(uuid_element(b"id", self.uuid), _binary(b"uid", b"\x00", self.user_hash))
        number = rawbson.INT64_LE.pack(self.transaction_number)
        return rawbson.element(rawbson.DOCUMENT, b"lsid", lsid) + rawbson.element(
            rawbson.INT64, b"txnNumber", number
        )


@dataclass(slots=True)
class OplogWriter:
    """Gives operations their time and keeps the entries."""

    rng: random.Random
    entries: list[bytes] = field(default_factory=list)
    term: int = 1
    _seconds: int = FIRST_SECOND
    _increment: int = 0

    @property
    def now(self) -> int:
        """The last timestamp given out."""
        return self._seconds << 32 | self._increment

    @property
    def optime(self) -> OpTime:
        """The last entry's time and term."""
        return self.now, self.term

    @property
    def wall(self) -> int:
        """Milliseconds; near the cluster time, and not always in its order, as on a server."""
        return self._seconds * 1000 + self._increment % 7 * 100

    def tick(self) -> int:
        """The next timestamp; slots are sometimes left unused, seconds sometimes pass."""
        rng = self.rng
        if rng.random() < 0.2:
            self._seconds += rng.choice((1, 1, 2, 10))
            self._increment = 0
        self._increment += 1 if rng.random() < 0.9 else rng.randrange(1, 4)
        return self.now

    def write(
        self,
        operation: Operation,
        *,
        session: Session | None = None,
        previous: OpTime | None = None,
        multi_op_type: int | None = None,
    ) -> int:
        """Append an entry at the next time and return that time."""
        timestamp = self.tick()
        parts = [] if session is None else [session.elements()]
        parts.append(operation.elements())
        parts.append(rawbson.element(rawbson.TIMESTAMP, b"ts", rawbson.UINT64_LE.pack(timestamp)))
        parts.append(rawbson.element(rawbson.INT64, b"t", rawbson.INT64_LE.pack(self.term)))
        parts.append(_VERSION_2)
        parts.append(rawbson.element(rawbson.DATE, b"wall", rawbson.INT64_LE.pack(self.wall)))
        if previous is not None:
            parts.append(rawbson.element(rawbson.DOCUMENT, b"prevOpTime", optime_document(previous)))
        if multi_op_type is not None:
            parts.append(_int32(b"multiOpType", multi_op_type))
        self.entries.append(rawbson.document(*parts))
        if session is not None:
            session.last = self.optime
        return timestamp

    def new_uuid(self) -> bytes:
        """Sixteen random bytes with the marks of a version 4 UUID."""
        data = bytearray(self.rng.randbytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        return bytes(data)


def command(database: str, o: dict[str, Any], **fields: Any) -> Operation:
    """A command entry on a database."""
    return Operation("c", f"{database}.$cmd", documents.encode(o), **fields)


def apply_ops(
    operations: Sequence[Operation], *, from_migrate: bool | None = None, **flags: bool | int
) -> Operation:
    """An `applyOps` entry; ``flags`` are `partialTxn`, `prepare` and `count`, in the order to be written."""
    array = rawbson.document(
        *(
            rawbson.element(rawbson.DOCUMENT, b"%d" % n, rawbson.document(operation.elements()))
            for n, operation in enumerate(operations)
        )
    )
    parts = [rawbson.element(rawbson.ARRAY, b"applyOps", array)]
    for name, value in flags.items():
        if isinstance(value, bool):
            parts.append(_TRUE % name.encode())
        else:
            parts.append(rawbson.element(rawbson.INT64, name.encode(), rawbson.INT64_LE.pack(value)))
    return Operation("c", "admin.$cmd", rawbson.document(*parts), from_migrate=from_migrate)


def optime_document(optime: OpTime) -> bytes:
    """`{ts, t}`."""
    timestamp, term = optime
    return rawbson.document(
        rawbson.element(rawbson.TIMESTAMP, b"ts", rawbson.UINT64_LE.pack(timestamp)),
        rawbson.element(rawbson.INT64, b"t", rawbson.INT64_LE.pack(term)),
    )


def uuid_element(name: bytes, uuid: bytes) -> bytes:
    """A UUID as binary subtype 4."""
    return _binary(name, UUID_SUBTYPE, uuid)


_TRUE: Final = b"\x08%b\0\x01"
_FALSE: Final = b"\x08%b\0\x00"
_VERSION_2: Final = rawbson.element(rawbson.INT64, b"v", rawbson.INT64_LE.pack(2))


def _text(name: bytes, text: str) -> bytes:
    return rawbson.string(name, text.encode())


def _int32(name: bytes, value: int) -> bytes:
    return rawbson.element(rawbson.INT32, name, rawbson.INT32_LE.pack(value))


def _binary(name: bytes, subtype: bytes, data: bytes) -> bytes:
    return rawbson.element(rawbson.BINARY, name, rawbson.INT32_LE.pack(len(data)) + subtype + data)
