"""The transactions of sessions: begun by their first statement, ended by commit, abort, or from outside.

A session has one transaction number at a time. Under it there is a transaction, or there are retryable
writes; a higher number ends what went on under the old one. Everything here happens in the event loop's
thread, with the session's lock held by the command under way, so a transaction has at most one user. One that
is ended while a command uses it lets go of its snapshot when that command has left it.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from bson import DatetimeMS, Int64

from tailrace.bsonio import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.model.cluster_time import in_words, to_timestamp
from tailrace.server.command import Reply
from tailrace.server.concerns import check_not_ahead
from tailrace.server.context import Context
from tailrace.server.transaction_rules import check_allowed
from tailrace.store.sessions import SessionWrites, session_key
from tailrace.store.store import Store
from tailrace.store.transaction import TransactionUnit
from tailrace.store.transaction_log import TRANSIENT

if TYPE_CHECKING:
    from tailrace.server.server import Server
    from tailrace.server.sessions import Session

EXPIRY_CHECK_SECONDS: Final = 1.0
"""How often transactions that are too old are looked for"""


class State(Enum):
    """Where a transaction stands."""

    IN_PROGRESS = "inProgress"
    COMMITTING = "committing"
    """Handed in to be committed; nothing can stop that"""
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction:
    """One transaction of a session, open or ended."""

    def __init__(
        self,
        session: "Session",
        number: int,
        unit: TransactionUnit | None,
        *,
        read_concern: str | None = None,
        started: float = 0.0,
        expires: float = 0.0,
    ) -> None:
        """Without a unit it is one that was committed before the server started."""
        self.session = session
        self.number = number
        self.state = State.COMMITTED if unit is None else State.IN_PROGRESS
        self.started = started
        """Seconds since 1970"""
        self.expires = expires
        self.user: Context | None = None
        """The command that works in it now"""
        self._unit = unit
        self._read_concern = read_concern

    @property
    def unit(self) -> TransactionUnit:
        """What its statements read and change."""
        if self._unit is None:
            raise _no_such_transaction(f"Transaction {self.number} has ended.")
        return self._unit

    @property
    def is_open(self) -> bool:
        """Whether it can still be committed or aborted."""
        return self.state is State.IN_PROGRESS

    def end_as(self, state: State) -> None:
        """Let go of everything; an open unit is aborted."""
        self.state = state
        unit, self._unit = self._unit, None
        if unit is not None and state is State.ABORTED:
            unit.abort()

    def describe(self) -> dict[str, Any]:
        """The field `transaction` of a currentOp entry."""
        parameters: dict[str, Any] = {"txnNumber": Int64(self.number), "autocommit": False}
        if self._read_concern is not None:
            parameters["readConcern"] = {"level": self._read_concern}
        return {
            "parameters": parameters,
            "readTimestamp": to_timestamp(0 if self._unit is None else self._unit.read_time),
            "startWallClockTime": DatetimeMS(int(self.started * 1000)),
            "expiryTime": DatetimeMS(int(self.expires * 1000)),
        }


class Transactions:
    """All open transactions of a server, and the rules by which they begin and end."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._open: dict[Transaction, None] = {}
        server.sessions.on_end.append(self._session_ended)
        server.background.add("abortExpiredTransactions", lambda: EXPIRY_CHECK_SECONDS, self._reap)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._open))

    def __len__(self) -> int:
        return len(self._open)

    # -- statements -------------------------------------------------------------------------------------

    async def run(self, context: Context, body: Callable[[Context], Awaitable[Reply]]) -> Reply:
        """Run a command that has a transaction number, with its session's lock held.

        In a transaction, whatever leaves the command as an error ends the transaction, and so do errors of
        single statements in its reply.
        """
        session, number = context.session, context.txn_number
        if session is None or number is None:
            raise RuntimeError("a command without a session or a number is in no transaction")
        self._recall(session)
        self._check_number(context, session, number)
        if not context.in_transaction:
            self._take_number(session, number, None)
            return await body(context)
        check_allowed(context)
        await self._wait_for_read_time(context)
        transaction = self._enter(context, session, number)
        context.transaction = transaction
        transaction.user = context
        try:
            reply = await body(context)
            if has_write_errors(reply):
                self.abort(transaction)
        except BaseException:
            self.abort(transaction)
            raise
        finally:
            transaction.user = None
            if transaction.state is State.ABORTED:
                self._release(transaction)
        if context.interruption is not None and transaction.state is State.ABORTED:
            raise context.interruption
        return reply

    def _recall(self, session: "Session") -> None:
        """What the session did before the server started, or before it was forgotten."""
        if session.txn_number >= 0:
            return
        with self._server.store.snapshot() as snapshot:
            record = snapshot.session_record(session_key(session.lsid))
        if record is None:
            return
        writes = SessionWrites.from_bson(record)
        session.txn_number = writes.txn_number
        if writes.state is not None:
            session.transaction = Transaction(session, writes.txn_number, None)

    @staticmethod
    def _check_number(context: Context, session: "Session", number: int) -> None:
        if number < session.txn_number:
            kind = "transaction" if context.in_transaction else "retryable write"
            raise CommandError(
                ErrorCode.TransactionTooOld,
                f"Cannot start {kind} {number} on this session because a newer one with txnNumber "
                f"{session.txn_number} has already started on it.",
            )
        if number == session.txn_number and session.transaction is not None and not context.in_transaction:
            raise CommandError(
                ErrorCode.InvalidOptions,
                "Must specify autocommit=false on all operations of a multi-statement transaction.",
            )

    def _take_number(self, session: "Session", number: int, transaction: Transaction | None) -> None:
        """Go on to a number; a transaction under the old one ends."""
        old = session.transaction
        if old is not None and number > session.txn_number:
            self.abort(old)
        if number > session.txn_number:
            session.txn_number = number
            session.transaction = transaction

    def _enter(self, context: Context, session: "Session", number: int) -> Transaction:
        if context.starts_transaction:
            return self._begin(context, session, number)
        transaction = session.transaction
        if number != session.txn_number or transaction is None:
            raise _no_such_transaction(
                f"Given transaction number {number} does not match any in-progress transactions. "
                f"The active transaction number is {session.txn_number}"
            )
        if transaction.is_open and self._server.wall.seconds() >= transaction.expires:
            self._expire(transaction)
        if transaction.state is State.ABORTED:
            raise _no_such_transaction(f"Transaction {number} has been aborted.")
        if not transaction.is_open and context.entry.name != "commitTransaction":
            raise CommandError(ErrorCode.TransactionCommitted, f"Transaction {number} has been committed.")
        return transaction

    def _begin(self, context: Context, session: "Session", number: int) -> Transaction:
        server = self._server
        if number == session.txn_number:
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                "Only servers in a sharded cluster can start a new transaction at the active transaction "
                f"number: {number}",
            )
        now = server.wall.seconds()
        transaction = Transaction(
            session,
            number,
            _unit_at(server.store, context.read_concern.at_cluster_time),
            read_concern=context.read_concern.level,
            started=now,
            expires=now + server.parameters["transactionLifetimeLimitSeconds"],
        )
        self._take_number(session, number, transaction)
        self._open[transaction] = None
        server.counters.transactions.started += 1
        return transaction

    async def _wait_for_read_time(self, context: Context) -> None:
        """See to it that nothing can be written any more that belongs to the moment asked for."""
        wanted = context.read_concern.at_cluster_time
        store = self._server.store
        if wanted is None or wanted <= store.last_committed:
            return
        check_not_ahead("atClusterTime", wanted, store.clock.now)
        # The clock has passed that time. Jobs that asked it before are finished when this one is.
        await store.write(lambda _unit: None)

    # -- ends -------------------------------------------------------------------------------------------

    async def commit(self, transaction: Transaction) -> None:
        """Commit; once more for one that is committed does nothing."""
        if transaction.state is State.COMMITTED:
            return
        session = transaction.session
        transaction.state = State.COMMITTING
        self._server.cursors.kill_transaction(session.lsid, transaction.number)
        try:
            await transaction.unit.commit(session.lsid, transaction.number)
        except Exception:
            self._ended(transaction, State.ABORTED)
            raise
        self._ended(transaction, State.COMMITTED)

    def abort(self, transaction: Transaction, error: CommandError | None = None) -> None:
        """Abort a transaction that is open; a command that works in it is interrupted by ``error``."""
        if not transaction.is_open:
            return
        transaction.state = State.ABORTED
        if transaction.user is None:
            self._release(transaction)
        elif error is not None:
            transaction.user.interrupt(error)

    def abort_all(self, error: CommandError) -> None:
        """Abort all open transactions: the server stops, or is no longer primary."""
        for transaction in self:
            self.abort(transaction, error)

    def _release(self, transaction: Transaction) -> None:
        self._server.cursors.kill_transaction(transaction.session.lsid, transaction.number)
        self._ended(transaction, State.ABORTED)

    def _ended(self, transaction: Transaction, state: State) -> None:
        transaction.end_as(state)
        if self._open.pop(transaction, self) is self:
            return
        counters = self._server.counters.transactions
        if state is State.COMMITTED:
            counters.committed += 1
        else:
            counters.aborted += 1

    def _session_ended(self, session: "Session") -> None:
        if session.transaction is not None:
            error = CommandError(ErrorCode.Interrupted, "operation was interrupted because its session ended")
            self.abort(session.transaction, error)

    async def _reap(self) -> None:
        now = self._server.wall.seconds()
        for transaction in self:
            if transaction.is_open and now >= transaction.expires:
                self._expire(transaction)

    def _expire(self, transaction: Transaction) -> None:
        error = CommandError(
            ErrorCode.TransactionExceededLifetimeLimitSeconds,
            "operation was interrupted because the transaction exceeded the configured "
            "'transactionLifetimeLimitSeconds'",
        )
        self.abort(transaction, error)
        self._server.log.info(
            "TXN",
            "Aborted a transaction that was open for too long",
            txnNumber=transaction.number,
            seconds=int(self._server.wall.seconds() - transaction.started),
        )


def has_write_errors(reply: Reply) -> bool:
    """Whether a command that succeeded reports statements that failed."""
    if isinstance(reply, Mapping):
        return bool(reply.get("writeErrors")) or bool(reply.get("nErrors"))
    errors = rawbson.field(reply, b"nErrors")
    return errors is not None and any(errors[1])


def _unit_at(store: Store, time: int | None) -> TransactionUnit:
    """A unit on the newest state; SnapshotTooOld (239) if something was written behind the time asked for."""
    unit = TransactionUnit(store)
    if time is not None and time < unit.read_time:
        unit.abort()
        raise CommandError(
            ErrorCode.SnapshotTooOld,
            f"the state at {in_words(time)} is no longer available; a transaction can read that at "
            f"{in_words(unit.read_time)}",
            [TRANSIENT],
        )
    return unit


def _no_such_transaction(reason: str) -> CommandError:
    return CommandError(ErrorCode.NoSuchTransaction, reason, [TRANSIENT])
