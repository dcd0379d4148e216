"""Find the results of retryable statements that were executed before.

The entries of a session with one transaction number form a chain, newest first, from the session's record
through `prevOpTime`. Each statement that changed something is in one of them, with its `stmtId`. Such a
statement is not executed again; its first result is read from the entry.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, decode_value
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.oplog_entry import OpTime
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.writes.delete import DeleteOutcome
from tailrace.mongod.server.writes.update import UpdateOutcome
from tailrace.mongod.store.reader import TableReader
from tailrace.mongod.store.transactions.sessions import SessionWrites, is_part_of_write, parts_of_write
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

NO_UPDATE: Final = 40638
"""The update was executed before, as something else: an error of the whole command."""


@dataclass(frozen=True, slots=True)
class LoggedWrite:
    """One statement's operation, as it was logged."""

    ts: int
    op: str
    o: bytes
    retry_image: str | None
    """`preImage` or `postImage` if the statement was a findAndModify whose image was stored."""
    inside: bytes | None = None
    """The session of the transaction that ran the statement, if it moved a document between shards."""

    def update_outcome(self) -> UpdateOutcome:
        """The result of the update that was logged like this."""
        if self.inside is not None:
            return UpdateOutcome(matched=1, modified=1)
        if self.op == "i":
            return UpdateOutcome(upserted=self.o)
        if self.op != "u":
            reason = (
                "update retry request is not compatible with previous write in the transaction of type: "
                f"{self.op}"
            )
            raise CommandError(NO_UPDATE, reason)
        return UpdateOutcome(matched=1, modified=1)

    def delete_outcome(self) -> DeleteOutcome:
        """The result of a delete that is sent again; a server does not check what was logged."""
        return DeleteOutcome(removed=1)


class RetryHistory:
    """The statements that a session has executed with its present transaction number."""

    def __init__(self, reader: TableReader, session: SessionWrites) -> None:
        self._session = session
        self._by_statement: dict[int, LoggedWrite] = {}
        self._is_complete = True
        self._follow(reader, session.last, None)
        for part in parts_of_write(reader, session):
            self._follow(reader, part.last, part.lsid)

    def _follow(self, reader: TableReader, last: OpTime, inside: bytes | None) -> None:
        while not last.is_null:
            entry = reader.entry(last.ts)
            if entry is None:
                self._is_complete = False
                return
            self._note(entry, last.ts, inside)
            previous = decode(rawbson.subdocument(entry, b"prevOpTime") or rawbson.EMPTY)
            last = OpTime(from_timestamp(previous["ts"]), int(previous["t"]))

    @classmethod
    def open(cls, unit: UnitOfWork, context: Context, before: "RetryHistory | None" = None) -> "RetryHistory":
        """Make the unit log retryable writes of a command's session, and read those it has logged before.

        ``before`` is what an earlier job of the same command has read: its own statements are not missed.
        """
        lsid, number = context.lsid, context.txn_number
        assert isinstance(unit, WriteUnit), "a retryable write is in no transaction"
        assert lsid is not None, "a retryable write has a session"
        assert number is not None, "a retryable write has a number"
        session = unit.open_session(lsid, number)
        if session.state is not None:
            reason = "Cannot retry a retryable write that has been converted into a transaction"
            raise CommandError(ErrorCode.IncompleteTransactionHistory, reason)
        return cls(unit, session) if before is None else before

    @property
    def statements(self) -> Set[int]:
        """The ids of the statements that the oplog still has."""
        return self._by_statement.keys()

    @property
    def is_complete(self) -> bool:
        """Whether the oplog still has all statements."""
        return self._is_complete

    def find(self, statement_id: int) -> LoggedWrite | None:
        """The logged statement; None if it has not been executed."""
        found = self._by_statement.get(statement_id)
        if found is None and not self._is_complete:
            raise CommandError(
                ErrorCode.IncompleteTransactionHistory,
                f"Incomplete history detected for transaction {self._session.txn_number}: "
                "the oplog no longer has all of its entries",
            )
        return found

    def _note(self, operation: bytes, ts: int, inside: bytes | None) -> None:
        """Add the statements of an entry, or of an operation inside of one."""
        op, o = "", rawbson.EMPTY
        statements: list[int] = []
        retry_image = None
        for kind, name, start, end in rawbson.elements(operation):
            if name == b"op":
                op = rawbson.string_value(operation, start, end)
            elif name == b"o":
                o = operation[start:end]
            elif name == b"needsRetryImage":
                retry_image = rawbson.string_value(operation, start, end)
            elif name == b"stmtId":
                value = decode_value(operation, kind, start, end)
                statements = value if isinstance(value, list) else [value]
        if op == "c":
            for inner in _inner_operations(o):
                self._note(inner, ts, inside)
        for statement in statements:
            self._by_statement[statement] = LoggedWrite(ts, op, o, retry_image, inside)


def _inner_operations(o: bytes) -> list[bytes]:
    found = rawbson.find(o, b"applyOps")
    if found is None:
        return []
    return [o[start:end] for _, _, start, end in rawbson.elements(o, found[2])]


def is_retryable(context: Context) -> bool:
    """Whether a command is a retryable write: with a transaction number, but in no transaction."""
    return context.txn_number is not None and not context.in_transaction


def is_numbered(context: Context) -> bool:
    """Whether a command's statements are logged with their ids: it is a retryable write, or part of one.

    A router runs a retryable write that needs several shards as a transaction, in an internal session.
    """
    if not context.in_transaction:
        return context.txn_number is not None
    return context.lsid is not None and is_part_of_write(context.lsid)
