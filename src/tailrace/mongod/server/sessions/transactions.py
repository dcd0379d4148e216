"""The transactions of sessions: begun by their first statement, ended by commit, abort, or from outside.

A session has one transaction number at a time. Under it there is a transaction, or there are retryable
writes; a higher number ends what went on under the old one. Everything here happens in the event loop's
thread, with the session's lock held by the command under way, so a transaction has at most one user. One that
is ended while a command uses it lets go of its snapshot when that command has left it.

A prepared transaction takes no further statements and is ended by nothing from outside. It is the store that
keeps it; a session that is asked for it again, here or on another member, finds it there.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import in_words
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.transaction import (
    State,
    StoredTransaction,
    Transaction,
    no_such_transaction,
)
from tailrace.mongod.server.sessions.transaction_rules import (
    check_allowed,
    check_commit_time,
    check_not_committed,
    check_not_prepared,
)
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.prepared import Prepared
from tailrace.mongod.store.transactions.sessions import ABORTED, PREPARED, SessionWrites, session_key
from tailrace.mongod.store.transactions.transaction import TransactionUnit
from tailrace.mongod.store.transactions.transaction_log import TRANSIENT

if TYPE_CHECKING:
    from tailrace.mongod.server.server import Server
    from tailrace.mongod.server.sessions.sessions import Session

EXPIRY_CHECK_SECONDS: Final = 1.0
"""How often transactions that are too old are looked for"""


class Transactions:
    """All open transactions of a server, and the rules by which they begin and end."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._open: dict[Transaction, None] = {}
        self._lent: dict[tuple[bytes, int], TransactionUnit] = {}
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
        transaction = await self._enter(context, session, number)
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
            session.transaction = self._recalled(session, writes)

    def _recalled(self, session: "Session", writes: SessionWrites) -> Transaction:
        state = State.ABORTED if writes.state == ABORTED else State.COMMITTED
        prepared = self._server.store.prepared.of_session(session.lsid) if writes.state == PREPARED else None
        if prepared is None:
            return StoredTransaction.recalled(session, writes.txn_number, state, None)
        transaction = StoredTransaction.recalled(session, writes.txn_number, State.PREPARED, prepared)
        self._open[transaction] = None
        return transaction

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
        self._take_up(session, number)
        transaction = session.transaction
        if number != session.txn_number or transaction is None:
            raise no_such_transaction(
                f"Given transaction number {number} does not match any in-progress transactions. "
                f"The active transaction number is {session.txn_number}"
            )
        if transaction.is_open and self._server.wall.seconds() >= transaction.expires:
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
        now = self._server.wall.seconds()
        transaction = await self._opened(
            context,
            session,
            number,
            read_concern=context.read_concern.level,
            started=now,
            expires=now + self._server.parameters["transactionLifetimeLimitSeconds"],
        )
        self._enter_as_open(transaction)
        return transaction

    async def _opened(self, context: Context, session: "Session", number: int, **facts: Any) -> Transaction:
        unit = _unit_at(self._server.store, context.read_concern.at_cluster_time)
        return StoredTransaction.opened(session, number, unit, **facts)

    def _enter_as_open(self, transaction: Transaction) -> None:
        try:
            self._take_number(transaction.session, transaction.number, transaction)
        except CommandError:
            transaction.end_as(State.ABORTED)
            raise
        self._open[transaction] = None
        self._server.counters.transactions.started += 1

    # -- what routers begin -----------------------------------------------------------------------------

    def lend(self, lsid: bytes, number: int, unit: TransactionUnit) -> None:
        """Have a transaction ready that a router has begun; the first statement that comes takes it up.

        The router looks after it: how long it may live, and what becomes of it.
        """
        self._lent[lsid, number] = unit

    def take_back(self, lsid: bytes, number: int) -> None:
        """Let go of a transaction that a router has begun, unless it is committed or prepared."""
        unit = self._lent.pop((lsid, number), None)
        if unit is not None:
            unit.abort()
            return
        session = self._server.sessions.get(lsid)
        if session is not None and session.txn_number == number and session.transaction is not None:
            self.abort(session.transaction)

    def _take_up(self, session: "Session", number: int) -> None:
        unit = self._lent.pop((session.lsid, number), None)
        if unit is None:
            return
        if number <= session.txn_number:
            unit.abort()  # the session was used here directly, and has come further
        else:
            now = self._server.wall.seconds()
            self._enter_as_open(
                StoredTransaction.opened(session, number, unit, started=now, expires=math.inf)
            )

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

    async def prepare(self, transaction: StoredTransaction) -> Prepared:
        """Prepare for a decision that others make; once more for one that is prepared does nothing."""
        if transaction.prepared is not None:
            return transaction.prepared
        session = transaction.session
        unit = transaction.unit
        self._begin_end(transaction)
        try:
            prepared = await unit.prepare(session.lsid, transaction.number)
        except Exception:
            self._ended(transaction, State.ABORTED)
            raise
        transaction.end_as(State.PREPARED)
        transaction.prepared = prepared
        self._server.counters.transactions.prepared += 1
        return prepared

    async def commit(self, transaction: Transaction, commit_time: int | None = None) -> None:
        """Commit; once more for one that is committed does nothing.

        A prepared one needs the time that it commits at everywhere. It stays prepared if it cannot commit.
        """
        if transaction.state is State.COMMITTED:
            return
        prepared = _prepared_of(transaction)
        check_commit_time(commit_time, prepared)
        if prepared is not None and commit_time is not None:
            await prepared.commit(commit_time)
        else:
            unit = transaction.unit
            self._begin_end(transaction)
            try:
                await unit.commit(transaction.session.lsid, transaction.number)
            except Exception:
                self._ended(transaction, State.ABORTED)
                raise
        self._ended(transaction, State.COMMITTED)

    def _begin_end(self, transaction: Transaction) -> None:
        """From now on nothing from outside ends it."""
        transaction.state = State.ENDING
        self._server.cursors.kill_transaction(transaction.session.lsid, transaction.number)

    async def give_up(self, transaction: Transaction) -> None:
        """Abort at the client's wish, also one that is prepared."""
        prepared = _prepared_of(transaction)
        if prepared is None:
            self.abort(transaction)
        else:
            await prepared.abort()
            self._ended(transaction, State.ABORTED)

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
        transaction = session.transaction
        if transaction is None:
            return
        if transaction.state is State.PREPARED:
            self._open.pop(transaction, None)  # the store has it, for the next time that session is used
        error = CommandError(ErrorCode.Interrupted, "operation was interrupted because its session ended")
        self.abort(transaction, error)

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


def _prepared_of(transaction: Transaction) -> Prepared | None:
    return transaction.prepared if isinstance(transaction, StoredTransaction) else None
