"""Transactions on a router: one snapshot of all shards, statements on some of them, one commit.

A transaction takes a snapshot of every shard when it begins: in one step of the event loop, and never in the
middle of a commit over several shards. Writes are acknowledged by the same loop, so a snapshot that contains
a write also contains everything the write depends on; and of two transactions one has the older snapshot on
all shards. The transaction reads this state, with the placement of the same moment: a range that is moved
meanwhile is read from its old shard.

A write goes to the shard that owns its documents now. So the placement of the namespaces must not have
changed since the transaction began, and must not change until it ends: the transaction uses the namespaces,
as a single write does, until its end. A shard takes part from the first statement that it is sent; reads need
no participation. If one shard has changes the end is a plain commit, otherwise `two_phase_commit`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.locks import HeldLocks, held_already
from tailrace.mongod.cluster.reads.states import ClusterStates
from tailrace.mongod.cluster.transactions.two_phase_commit import TwoPhaseCommit, statement_fields
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.internal_calls import call
from tailrace.mongod.server.replica_set.member import Member
from tailrace.mongod.server.sessions.transaction import State, Transaction, no_such_transaction
from tailrace.mongod.server.sessions.transaction_rules import namespaces_of
from tailrace.mongod.server.sessions.transactions import Transactions
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.transactions.transaction import TransactionUnit
from tailrace.mongod.store.transactions.transaction_log import TRANSIENT

if TYPE_CHECKING:
    from tailrace.mongod.server.admin.counters import Counters
    from tailrace.mongod.server.admin.logbook import Logbook
    from tailrace.mongod.server.admin.parameters import Parameters
    from tailrace.mongod.server.reads.cursors import Cursors
    from tailrace.mongod.server.sessions.sessions import Session, Sessions

_LOCK_TIMEOUT_SECONDS: Final = 0.1
"""How long a transaction that uses namespaces waits for further ones, whose change may be waiting for it"""


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """The parts of a cluster that its transactions use."""

    shards: Mapping[str, Member]
    placement: Placement
    states: ClusterStates
    two_phase_commit: TwoPhaseCommit


class ClusterTransaction(Transaction):
    def __init__(
        self,
        session: "Session",
        number: int,
        cluster: ClusterParts,
        units: Mapping[str, TransactionUnit],
        states: ClusterStates | None = None,
        **facts: Any,
    ) -> None:
        """``units`` are its snapshots by shard, all of one moment; ``states`` have the placement of then."""
        super().__init__(session, number, **facts)
        self._cluster = cluster
        self._units = units
        self._states = states or cluster.states.frozen()
        self._held: list[HeldLocks] = []
        self._names: set[str] = set()
        self.recovery_shard: str | None = None
        """The first shard with changes; it can report the outcome after routers have forgotten it"""
        for shard, unit in units.items():
            cluster.shards[shard].transactions.register_begun(session.lsid, number, unit)

    @property
    def reader(self) -> Reader:
        """The whole cluster as the transaction sees it."""
        if not self._units or any(unit.is_over for unit in self._units.values()):
            raise no_such_transaction(f"Transaction {self.number} has ended, here or on a shard.")
        return self._states.reader(self._units)

    def reader_of(self, shard: str) -> Reader:
        """One shard as the transaction sees it; raises KeyError for shards that joined later."""
        return self._units[shard]

    @property
    def unit(self) -> TransactionUnit:
        """Always raises: a router's statements change something on shards only."""
        raise RuntimeError("a router's transaction has no single store to change")

    @property
    def read_time(self) -> int:
        """The cluster time of the newest change that it sees; 0 if it has ended."""
        return max((unit.read_time for unit in self._units.values()), default=0)

    @property
    def writers(self) -> list[str]:
        """The shards with changes, the recovery shard first."""
        found = [shard for shard, unit in self._units.items() if unit.has_changes]
        return sorted(found, key=lambda shard: shard != self.recovery_shard)

    @property
    def recovery_token(self) -> dict[str, str]:
        """Sent by the client with the commit, so that any router can find out the outcome."""
        if self.recovery_shard is None:
            self.recovery_shard = next(iter(self.writers), None)
        return {} if self.recovery_shard is None else {"recoveryShardId": self.recovery_shard}

    # -- locks ------------------------------------------------------------------------------------------

    @property
    def names(self) -> frozenset[str]:
        """The namespaces and databases whose placement does not change until the end."""
        return frozenset(self._names)

    async def hold(self, namespaces: Iterable[str]) -> None:
        """Use namespaces until the end; raises a transient error if they were moved since the beginning."""
        new = [ns for ns in namespaces if ns not in self._names]
        if not new:
            return
        locks = self._cluster.placement.using(*new)
        try:
            async with asyncio.timeout(_LOCK_TIMEOUT_SECONDS if self._held else None):
                await locks.__aenter__()
        except TimeoutError:
            reason = f"Unable to use {', '.join(new)}, because its placement is being changed."
            raise CommandError(ErrorCode.LockTimeout, reason, [TRANSIENT]) from None
        self._held.append(locks)
        self._names |= {*new, *(ns.partition(".")[0] for ns in new)}
        for ns in new:
            if not self._states.has_same_placement(self._cluster.placement, ns):
                raise CommandError(
                    ErrorCode.SnapshotUnavailable,
                    f"{ns} was moved or sharded after the transaction began. Please retry the transaction.",
                    [TRANSIENT],
                )

    # -- commit and end ---------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Commit on all shards; if it raises, the transaction is aborted on all of them."""
        writers = self.writers
        lsid = self.session.lsid
        if len(writers) > 1:
            await self._cluster.two_phase_commit.commit(lsid, self.number, writers)
        elif writers:
            fields = statement_fields(lsid, self.number)
            await call(self._cluster.shards[writers[0]], {"commitTransaction": 1, **fields}, "admin")

    def end_as(self, state: State) -> None:
        """Release everything; shards that have not committed abort."""
        super().end_as(state)
        units, self._units = self._units, {}
        for shard in units:
            server = self._cluster.shards.get(shard)
            if server is not None:
                server.transactions.abort_begun(self.session.lsid, self.number)
        held, self._held = self._held, []
        for locks in held:
            locks.release()
        self._names.clear()


class ClusterTransactions(Transactions):
    """The open transactions of a router."""

    def __init__(
        self,
        cluster: ClusterParts,
        sessions: "Sessions",
        cursors: "Cursors",
        counters: "Counters",
        parameters: "Parameters",
        wall: WallClock,
        log: "Logbook",
    ) -> None:
        super().__init__(sessions, cursors, counters, parameters, wall, log)
        self._cluster = cluster

    async def run(self, context: Context, body: Callable[[Context], Awaitable[Reply]]) -> Reply:
        """See `Transactions`; adds the recovery token to every reply of a transaction."""

        async def statement(context: Context) -> Reply:
            transaction = context.transaction
            entry = context.entry
            if (
                not isinstance(transaction, ClusterTransaction)
                or not entry.is_write
                or entry.ends_transaction
            ):
                return await body(context)
            await transaction.hold(namespaces_of(context))
            with held_already(transaction.names):
                return await body(context)

        reply = await super().run(context, statement)
        transaction = context.transaction
        if not isinstance(transaction, ClusterTransaction):
            return reply
        token = {"recoveryToken": transaction.recovery_token}
        if isinstance(reply, bytes):
            return rawbson.document(rawbson.body(reply), rawbson.body(encode(token)))
        return {**reply, **token}

    def _recall(self, session: "Session") -> None:
        """Nothing: the shards store what a session did, and the client names the shard."""

    async def _wait_for_read_time(self, context: Context) -> None:
        """Nothing: `_opened` waits for all shards together."""

    async def _opened(self, context: Context, session: "Session", number: int, **facts: Any) -> Transaction:
        cluster = self._cluster
        states = cluster.states
        wanted = context.read_concern.at_cluster_time

        def begin() -> ClusterTransaction:
            placed = None if wanted is None else states.at(wanted)
            units = {name: TransactionUnit(shard.store, wanted) for name, shard in cluster.shards.items()}
            return ClusterTransaction(session, number, cluster, units, placed, **facts)

        if wanted is None:
            async with states.multi_shard_lock:
                return begin()
        check_not_ahead("atClusterTime", wanted, states.clock.now)
        return await states.while_paused(begin)

    async def _enter(self, context: Context, session: "Session", number: int) -> Transaction:
        if context.entry.ends_transaction and number > session.txn_number:
            token = context.command.get("recoveryToken")
            shard = token.get("recoveryShardId") if isinstance(token, dict) else None
            if shard is not None:
                return await self._recovered(context, session, number, shard)
        return await super()._enter(context, session, number)

    async def _recovered(
        self, context: Context, session: "Session", number: int, shard: object
    ) -> Transaction:
        """A transaction that this router does not know, or no longer; the shard reports how it ended.

        If it is still open on the shard its router is gone, and it is aborted.
        """
        cluster = self._cluster
        server = cluster.shards.get(shard) if is_string(shard) else None
        if server is None:
            raise no_such_transaction(f"the recoveryToken names a shard that does not exist: {shard}")
        await cluster.two_phase_commit.wait_for(session.lsid, number)
        fields = statement_fields(session.lsid, number)
        await call(server, {"coordinateCommitTransaction": 1, "participants": [], **fields}, "admin")
        transaction = ClusterTransaction(session, number, cluster, {})
        transaction.state = State.COMMITTED
        transaction.recovery_shard = server.options.replica_set
        self._take_number(session, number, transaction)
        if context.entry.name != "commitTransaction":
            raise CommandError(ErrorCode.TransactionCommitted, f"Transaction {number} has been committed.")
        return transaction

    async def commit(self, transaction: Transaction, commit_time: int | None = None) -> None:
        """Commit on all shards; does nothing if it is committed already."""
        if transaction.state is State.COMMITTED:
            return
        if not isinstance(transaction, ClusterTransaction) or commit_time is not None:
            raise CommandError(
                ErrorCode.InvalidOptions, "commitTimestamp is chosen by routers, not by clients"
            )
        self._begin_end(transaction)
        # A commit that has begun is completed even if the client disconnects.
        await asyncio.shield(asyncio.get_running_loop().create_task(self._finish(transaction)))

    async def _finish(self, transaction: ClusterTransaction) -> None:
        try:
            await transaction.commit()
        except BaseException:
            self._ended(transaction, State.ABORTED)
            raise
        self._ended(transaction, State.COMMITTED)
