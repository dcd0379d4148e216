"""The transactions of sessions: begun by the first statement, ended by commit, by abort, or by the node.

A session has one transaction number at a time. It belongs to a transaction or to retryable writes; a higher
number ends the transaction before it. Everything here runs in the event loop's thread, and the running
command holds the session's lock, so a transaction has at most one user. A transaction that is ended while a
command uses it releases its snapshot when that command has ended.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.transaction import (
    State,
    Transaction,
    no_such_transaction,
)
from tailrace.mongod.server.sessions.transaction_rules import (
    check_not_committed,
    check_not_prepared,
    check_stages,
    ends_transaction,
)
from tailrace.mongod.store.clock import WallClock

if TYPE_CHECKING:
    from tailrace.mongod.server.admin.counters import Counters
    from tailrace.mongod.server.admin.logbook import Logbook
    from tailrace.mongod.server.admin.parameters import Parameters
    from tailrace.mongod.server.reads.cursors import Cursors
    from tailrace.mongod.server.sessions.sessions import Session, Sessions


class Transactions(ABC):
    """All open transactions of a node, and the rules by which they begin and end."""

    def __init__(
        self,
        sessions: "Sessions",
        cursors: "Cursors",
        counters: "Counters",
        parameters: "Parameters",
        wall: WallClock,
        log: "Logbook",
    ) -> None:
        self._sessions = sessions
        self._cursors = cursors
        self._counters = counters.transactions
        self._parameters = parameters
        self._wall = wall
        self._log = log
        self._open: dict[Transaction, None] = {}
        sessions.on_end.append(self._session_ended)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(list(self._open))

    def __len__(self) -> int:
        return len(self._open)

    @property
    def prepared_count(self) -> int:
        """Number of transactions that are prepared here."""
        return 0

    # -- what differs between members and routers ---------------------------------------------------------

    @abstractmethod
    def _recall(self, session: "Session") -> None:
        """Restore what the session did before the node started, or before the session was removed."""

    @abstractmethod
    async def _wait_for_read_time(self, context: Context) -> None:
        """Wait until nothing can be written any more at or before the time that the command reads at."""

    @abstractmethod
    async def _opened(self, context: Context, session: "Session", number: int, **facts: Any) -> Transaction:
        """A new transaction on a snapshot."""

    @abstractmethod
    async def commit(self, transaction: Transaction, commit_time: int | None = None) -> None:
        """Commit; does nothing for a transaction that is committed.

        A prepared transaction needs the commit time, the same on all shards; it stays prepared on failure.
        """

    async def abort_by_client(self, transaction: Transaction) -> None:
        """Abort at the client's request, also a prepared transaction."""
        self.abort(transaction)

    # -- statements -------------------------------------------------------------------------------------

    async def run(self, context: Context, body: Callable[[Context], Awaitable[Reply]]) -> Reply:
        """Run a command that has a transaction number, with its session's lock held.

        In a transaction, an error of the command ends the transaction, and so do errors of single statements
        in its reply.
        """
        session, number = context.session, context.txn_number
        if session is None or number is None:
            raise RuntimeError("a command without a session or a number is in no transaction")
        self._recall(session)
        self._check_number(context, session, number)
        if not context.in_transaction:
            self._take_number(session, number, None)
            return await body(context)
        await self._wait_for_read_time(context)
        transaction = await self._enter(context, session, number)
        context.transaction = transaction
        transaction.user = context
        try:
            check_stages(context)
            reply = await body(context)
            if has_write_errors(reply):
                self.abort(transaction)
        except BaseException as error:
            if context.starts_transaction or ends_transaction(context, error):
                self.abort(transaction)
            raise
        finally:
            transaction.user = None
            if transaction.state is State.ABORTED:
                self._release(transaction)
        if context.interruption is not None and transaction.state is State.ABORTED:
            raise context.interruption
        return reply

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
                ErrorCode.IncompleteTransactionHistory,
                "Cannot retry a retryable write that has been converted into a transaction",
            )

    def _take_number(self, session: "Session", number: int, transaction: Transaction | None) -> None:
        """Set the session's number; a transaction with a lower number ends."""
        old = session.transaction
        if old is not None and number > session.txn_number:
            if old.state is State.PREPARED:
                raise CommandError(
                    ErrorCode.PreparedTransactionInProgress,
                    f"The session cannot go on to transaction number {number}: its transaction {old.number} "
                    "is prepared and waits for its commit or abort.",
                )
            self.abort(old)
        if number > session.txn_number:
            session.txn_number = number
            session.transaction = transaction

    async def _enter(self, context: Context, session: "Session", number: int) -> Transaction:
        if context.starts_transaction:
            return await self._begin(context, session, number)
        transaction = session.transaction
        if number != session.txn_number or transaction is None:
            raise no_such_transaction(
                f"Given transaction number {number} does not match any in-progress transactions. "
                f"The active transaction number is {session.txn_number}"
            )
        if transaction.is_open and self._wall.seconds() >= transaction.expires:
            self._expire(transaction)
        if transaction.state is State.ABORTED:
            raise no_such_transaction(f"Transaction {number} has been aborted.")
        if transaction.state is State.COMMITTED:
            check_not_committed(context)
        if transaction.state is State.PREPARED:
            check_not_prepared(context)
        return transaction

    async def _begin(self, context: Context, session: "Session", number: int) -> Transaction:
        if number == session.txn_number:
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                "Only servers in a sharded cluster can start a new transaction at the active transaction "
                f"number: {number}",
            )
        now = self._wall.seconds()
        transaction = await self._opened(
            context,
            session,
            number,
            read_concern=context.read_concern.level,
            started=now,
            expires=now + self._parameters["transactionLifetimeLimitSeconds"],
        )
        self._enter_as_open(transaction)
        return transaction

    def _enter_as_open(self, transaction: Transaction) -> None:
        try:
            self._take_number(transaction.session, transaction.number, transaction)
        except CommandError:
            transaction.end_as(State.ABORTED)
            raise
        self._open[transaction] = None
        self._counters.started += 1

    # -- ends -------------------------------------------------------------------------------------------

    def _begin_end(self, transaction: Transaction) -> None:
        """Mark it as ending: nothing else can end it any more."""
        transaction.state = State.ENDING
        self._cursors.kill_transaction(transaction.session.lsid, transaction.number)

    def abort(self, transaction: Transaction, error: CommandError | None = None) -> None:
        """Abort a transaction that is open; a command that uses it is interrupted by ``error``."""
        if not transaction.is_open:
            return
        transaction.state = State.ABORTED
        if transaction.user is None:
            self._release(transaction)
        elif error is not None:
            transaction.user.interrupt(error)

    def abort_all(self, error: CommandError) -> None:
        """Abort all open transactions, because the node stops or is no longer primary."""
        for transaction in self:
            self.abort(transaction, error)

    def _release(self, transaction: Transaction) -> None:
        self._cursors.kill_transaction(transaction.session.lsid, transaction.number)
        self._ended(transaction, State.ABORTED)

    def _ended(self, transaction: Transaction, state: State) -> None:
        transaction.end_as(state)
        if self._open.pop(transaction, self) is self:
            return
        counters = self._counters
        if state is State.COMMITTED:
            counters.committed += 1
        else:
            counters.aborted += 1

    def _session_ended(self, session: "Session") -> None:
        transaction = session.transaction
        if transaction is None:
            return
        if transaction.state is State.PREPARED:
            self._open.pop(transaction, None)  # the store has it, for the next use of the session
        error = CommandError(ErrorCode.Interrupted, "operation was interrupted because its session ended")
        self.abort(transaction, error)

    def reap(self) -> None:
        """Abort transactions that have been open for too long."""
        now = self._wall.seconds()
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
        self._log.info(
            "TXN",
            "Aborted a transaction that was open for too long",
            txnNumber=transaction.number,
            seconds=int(self._wall.seconds() - transaction.started),
        )


def has_write_errors(reply: Reply) -> bool:
    """Whether the reply of a command reports failed statements."""
    if isinstance(reply, Mapping):
        return bool(reply.get("writeErrors")) or bool(reply.get("nErrors"))
    errors = rawbson.field(reply, b"nErrors")
    return errors is not None and any(errors[1])
