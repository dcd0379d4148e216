"""The records of `config.transactions`: the state of a session's retryable writes and transactions."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from bson import DatetimeMS, Int64

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.events.entry_bytes import NULL_OPTIME, session_elements
from tailrace.events.oplog_entry import OpTime
from tailrace.mongod.store.reader import TableReader
from tailrace.mongod.store.tables import after_prefix

NO_USER: Final = hashlib.sha256(b"").digest()
"""`uid` of sessions on a server without authentication"""
COMMITTED: Final = "committed"
PREPARED: Final = "prepared"
ABORTED: Final = "aborted"
_UUID_SIZE: Final = 16


def session_key(lsid: bytes) -> bytes:
    """The key of a session's record; ``lsid`` is the whole document `{id, uid}`."""
    found = rawbson.field(lsid, b"id")
    user = rawbson.field(lsid, b"uid")
    if found is None or user is None or len(found[1]) != 5 + _UUID_SIZE:
        raise CommandError(ErrorCode.InvalidOptions, "a session id is a document of a UUID `id` and a `uid`")
    # An internal session of the same client has further fields and its own record.
    inner = rawbson.without(lsid, (b"id", b"uid"))
    digest = hashlib.sha256(user[1] + inner).digest()
    number = rawbson.field(inner, b"txnNumber")
    if number is None:
        return found[1][5:] + digest[:16]
    return found[1][5:] + _packed(int.from_bytes(number[1][:8], "little")) + digest[:8]


def _packed(number: int) -> bytes:
    """A transaction number in a session key: big-endian, so that the parts of a write are adjacent."""
    return number.to_bytes(8, "big")


def is_part_of_write(lsid: bytes) -> bool:
    """Whether this is the session of a transaction as which a router runs a retryable write."""
    return rawbson.find(lsid, b"txnNumber") is not None


@dataclass(slots=True)
class SessionWrites:
    """The writes of one session under its current transaction number."""

    lsid: bytes
    txn_number: int
    last: OpTime = NULL_OPTIME
    """The newest entry under this number"""
    state: str | None = None
    """State of the transaction under this number; None for retryable writes"""
    start: OpTime | None = None
    """The first entry of a prepared transaction"""
    changed: bool = False

    @property
    def elements(self) -> bytes:
        """The fields `lsid` and `txnNumber` of an entry."""
        return session_elements(self.lsid, self.txn_number)

    def to_bson(self, wall: int) -> bytes:
        record: dict[str, Any] = {
            "_id": documents.decode(self.lsid),
            "txnNum": Int64(self.txn_number),
            "lastWriteOpTime": {"ts": to_timestamp(self.last.ts), "t": Int64(self.last.term)},
            "lastWriteDate": DatetimeMS(wall),
        }
        if self.start is not None:
            record["startOpTime"] = {"ts": to_timestamp(self.start.ts), "t": Int64(self.start.term)}
        if self.state is not None:
            record["state"] = self.state
        return documents.encode(record)

    @classmethod
    def from_bson(cls, raw: bytes) -> "SessionWrites":
        record = documents.decode(raw)
        time = record["lastWriteOpTime"]
        return cls(
            documents.encode(record["_id"]),
            int(record["txnNum"]),
            OpTime(from_timestamp(time["ts"]), int(time["t"])),
            record.get("state"),
        )

    @classmethod
    def under(cls, lsid: bytes, txn_number: int, record: bytes | None) -> "SessionWrites":
        """The writes of a session under a number; ``record`` is the session's, if it has one.

        Raises TransactionTooOld (225) if the session has used a higher number since.
        """
        known = None if record is None else cls.from_bson(record)
        if known is not None and known.txn_number > txn_number:
            raise CommandError(
                ErrorCode.TransactionTooOld,
                f"the transaction number {txn_number} is older than {known.txn_number}, which this session "
                "has used since",
            )
        return cls(lsid, txn_number) if known is None or known.txn_number < txn_number else known


def parts_of_write(reader: TableReader, session: SessionWrites) -> Iterator[SessionWrites]:
    """The committed transactions as which a router ran retryable writes of a session under its number."""
    parent = rawbson.body(session.lsid)
    prefix = session_key(session.lsid)[:_UUID_SIZE] + _packed(session.txn_number)
    for _, record in reader.session_records(prefix, after_prefix(prefix)):
        lsid = rawbson.subdocument(record, b"_id") or b""
        # Its id begins with the fields of the session's id.
        if is_part_of_write(lsid) and rawbson.body(lsid).startswith(parent):
            part = SessionWrites.from_bson(record)
            if part.state == COMMITTED:
                yield part


def keys_of_older_parts(reader: TableReader, lsid: bytes) -> list[bytes]:
    """The keys of parts of earlier writes of the same session, which cannot be retried any more."""
    own = session_key(lsid)
    first, last = own[:_UUID_SIZE], own[: _UUID_SIZE + 8]
    return [
        key
        for key, record in reader.session_records(first, last)
        if is_part_of_write(rawbson.subdocument(record, b"_id") or b"")
        and SessionWrites.from_bson(record).state != PREPARED
    ]
