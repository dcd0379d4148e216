"""The transactions of a replica-set member: on its store, prepared ones included.

A prepared transaction accepts no further statements, and only its commit or abort ends it. It is stored, so a
session finds it again, on this member or on another.
"""

import math
from typing import TYPE_CHECKING, Any

from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.transaction import State, StoredTransaction, Transaction
from tailrace.mongod.server.sessions.transaction_rules import check_commit_time
from tailrace.mongod.server.sessions.transactions import Transactions
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.past.past_snapshot import too_old
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.prepared import Prepared
from tailrace.mongod.store.transactions.sessions import ABORTED, PREPARED, SessionWrites, session_key
from tailrace.mongod.store.transactions.transaction import TransactionUnit

if TYPE_CHECKING:
    from tailrace.mongod.server.admin.counters import Counters
    from tailrace.mongod.server.admin.logbook import Logbook
    from tailrace.mongod.server.admin.parameters import Parameters
    from tailrace.mongod.server.reads.cursors import Cursors
    from tailrace.mongod.server.sessions.sessions import Session, Sessions


class StoredTransactions(Transactions):
    """All open transactions of a member."""

    def __init__(
        self,
        store: Store,
        sessions: "Sessions",
        cursors: "Cursors",
        counters: "Counters",
        parameters: "Parameters",
        wall: WallClock,
        log: "Logbook",
    ) -> None:
        super().__init__(sessions, cursors, counters, parameters, wall, log)
        self._store = store
        self._begun: dict[tuple[bytes, int], TransactionUnit] = {}

    @property
    def prepared_count(self) -> int:
        return len(self._store.prepared)

    def _recall(self, session: "Session") -> None:
        """Read the session's last transaction from the store, if the session is new here."""
        if session.txn_number >= 0:
            return
        with self._store.snapshot() as snapshot:
            record = snapshot.session_record(session_key(session.lsid))
        if record is None:
            return
        writes = SessionWrites.from_bson(record)
        session.txn_number = writes.txn_number
        if writes.state is not None:
            session.transaction = self._recalled(session, writes)

    def _recalled(self, session: "Session", writes: SessionWrites) -> Transaction:
        state = State.ABORTED if writes.state == ABORTED else State.COMMITTED
        prepared = self._store.prepared.of_session(session.lsid) if writes.state == PREPARED else None
        if prepared is None:
            return StoredTransaction.recalled(session, writes.txn_number, state, None)
        transaction = StoredTransaction.recalled(session, writes.txn_number, State.PREPARED, prepared)
        self._open[transaction] = None
        return transaction

    async def _enter(self, context: Context, session: "Session", number: int) -> Transaction:
        if not context.starts_transaction:
            self._open_begun(session, number)
        return await super()._enter(context, session, number)

    async def _opened(self, context: Context, session: "Session", number: int, **facts: Any) -> Transaction:
        concern = context.read_concern
        time = concern.at_cluster_time
        if time is None and concern.level == "snapshot":
            time = self._store.last_committed
        if time is not None and time < self._store.past.since:
            raise too_old(time)
        unit = TransactionUnit(self._store, time)
        return StoredTransaction.opened(session, number, unit, **facts)

    # -- what routers begin -----------------------------------------------------------------------------

    def register_begun(self, lsid: bytes, number: int, unit: TransactionUnit) -> None:
        """Register a transaction that a router has begun; its first statement here opens it.

        The router decides how long it may live, and how it ends.
        """
        self._begun[lsid, number] = unit

    def abort_begun(self, lsid: bytes, number: int) -> None:
        """Abort a transaction that a router has begun, unless it is committed or prepared."""
        unit = self._begun.pop((lsid, number), None)
        if unit is not None:
            unit.abort()
            return
        session = self._sessions.get(lsid)
        if session is not None and session.txn_number == number and session.transaction is not None:
            self.abort(session.transaction)

    def _open_begun(self, session: "Session", number: int) -> None:
        unit = self._begun.pop((session.lsid, number), None)
        if unit is None:
            return
        if number <= session.txn_number:
            unit.abort()  # the session was used here directly, with a higher number
        else:
            now = self._wall.seconds()
            self._enter_as_open(
                StoredTransaction.opened(session, number, unit, started=now, expires=math.inf)
            )

    async def _wait_for_read_time(self, context: Context) -> None:
        """Wait until nothing can be written any more at or before the time that the command reads at."""
        wanted = context.read_concern.at_cluster_time
        store = self._store
        if wanted is None or wanted <= store.last_committed:
            return
        check_not_ahead("atClusterTime", wanted, store.clock.now)
        # The clock has passed that time. Jobs with earlier times have ended when this job has.
        await store.write(lambda _unit: None)

    # -- ends ---------------------------------------------------------------------------------------

    async def prepare(self, transaction: StoredTransaction) -> Prepared:
        """Prepare for the coordinator's decision; does nothing for a transaction that is prepared."""
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
        self._counters.prepared += 1
        return prepared

    async def commit(self, transaction: Transaction, commit_time: int | None = None) -> None:

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

    async def abort_by_client(self, transaction: Transaction) -> None:
        prepared = _prepared_of(transaction)
        if prepared is None:
            self.abort(transaction)
        else:
            await prepared.abort()
            self._ended(transaction, State.ABORTED)


def _prepared_of(transaction: Transaction) -> Prepared | None:
    return transaction.prepared if isinstance(transaction, StoredTransaction) else None
