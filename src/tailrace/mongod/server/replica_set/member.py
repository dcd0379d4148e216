"""A member of a replica set, or a standalone server: a node with data.

All members of a set read and write one store, so a secondary is as new as the primary. Everything else is
separate, as on several machines: a cursor belongs to the member that opened it, a parameter or fail point to
the member where it was set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.log.event_log import EventLog
from tailrace.log.head import HeadLog
from tailrace.mongod.server.access.stored import StoredAccess
from tailrace.mongod.server.admin.cluster_parameters import ClusterParameters
from tailrace.mongod.server.admin.expiry import TtlMonitor
from tailrace.mongod.server.admin.index_filters import IndexFilters
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.admin.parameters import INSERT_BATCH, SNAPSHOT_WINDOW
from tailrace.mongod.server.admin.profiler import Profiler
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.default_concerns import DefaultConcerns
from tailrace.mongod.server.dispatch.times import MemberTimes
from tailrace.mongod.server.node import Node
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.reads.output import StoreResultWriter
from tailrace.mongod.server.reads.snapshots import StoreSnapshots
from tailrace.mongod.server.replica_set.elections import Elections
from tailrace.mongod.server.replica_set.no_ops import PeriodicNoop
from tailrace.mongod.server.replica_set.replication import Replication, SetState
from tailrace.mongod.server.sessions.stored_transactions import StoredTransactions
from tailrace.mongod.server.streams.served_history import ServedHistory
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.store import Store


@dataclass(eq=False)
class SharedBySet:
    """What the members of one set share."""

    store: Store
    state: SetState
    event_log: EventLog
    head: HeadLog | None
    """The part of the event log that is in memory, if there is one."""
    history: ServedHistory | None
    cluster_parameters: ClusterParameters
    default_concerns: DefaultConcerns
    access: StoredAccess
    pipeline_status: Callable[[], dict[str, Any] | None]
    is_shard: bool
    members: list["Member"] = field(default_factory=list)
    elections: Elections = field(init=False)

    def __post_init__(self) -> None:
        self.elections = Elections(self.members)


class Member(Node):
    """One member; the first one that is built is the primary until an election."""

    kind_of_context = MemberContext
    profiler: Profiler
    transactions: StoredTransactions

    def __init__(
        self,
        options: ServerOptions,
        shared: SharedBySet,
        *,
        wall: WallClock,
        log: Logbook,
        commands: Mapping[str, Command],
        stop: Callable[[], object],
    ) -> None:
        super().__init__(options, wall=wall, log=log, commands=commands, stop=stop)
        store = shared.store
        self._shared = shared
        self.store = store
        self.states = store
        self.elections = shared.elections
        self.cluster_parameters = shared.cluster_parameters
        self.default_concerns = shared.default_concerns
        self.access = shared.access
        self.replication = Replication(shared.state)
        self.times = MemberTimes(store, self.replication, is_shard=shared.is_shard)
        self.snapshots = StoreSnapshots(self.wall, store)
        self.results = StoreResultWriter(store)
        self.index_filters = IndexFilters()
        self.profiler = Profiler(store)
        self.transactions = StoredTransactions(
            store, self.sessions, self.cursors, self.counters, self.parameters, self.wall, self.log
        )
        self.ttl_monitor = TtlMonitor(
            store, self.replication, self.parameters, self.wall, self.counters.expiry
        )
        self.listener.on_reachability_change = self.elections.hold
        no_ops = PeriodicNoop(store, self.replication, self.parameters)
        self.background.add("NoopWriter", no_ops.pause, no_ops.run)
        self.background.add("TTLMonitor", self.ttl_monitor.pause, self.ttl_monitor.run)
        self.parameters.on_change.append(self._pass_to_store)
        self._pass_to_store(INSERT_BATCH)
        self._pass_to_store(SNAPSHOT_WINDOW)
        shared.members.append(self)

    def _pass_to_store(self, parameter: str) -> None:
        if parameter == INSERT_BATCH:
            self.store.most_inserts = self.parameters[INSERT_BATCH]
        elif parameter == SNAPSHOT_WINDOW:
            self.store.past.seconds = self.parameters[SNAPSHOT_WINDOW]

    @property
    def keeper(self) -> "Member":
        if self.access.store is not self.store:
            reason = "the users of a cluster are on its config server; change them on a router"
            raise CommandError(ErrorCode.IllegalOperation, reason)
        return self

    @property
    def members(self) -> "list[Member]":
        return self._shared.members

    @property
    def oplog_size(self) -> int:
        return self.store.oplog_size

    @property
    def is_shard(self) -> bool:
        """Whether it belongs to a cluster."""
        return self._shared.is_shard

    @property
    def primary(self) -> "Member | None":
        """The member that takes writes now, if there is one."""
        return next((member for member in self.members if member.replication.is_primary), None)

    @property
    def event_log(self) -> EventLog:
        return self._shared.event_log

    @property
    def history(self) -> ServedHistory | None:
        return self._shared.history

    @property
    def is_replicated(self) -> bool:
        return self.replication.is_replica_set

    def followed_store(self, ns: str) -> Store:  # noqa: ARG002 - all collections are in one store
        return self.store

    def pipeline_status(self) -> dict[str, Any] | None:
        return self._shared.pipeline_status()

    async def step_down(self, seconds: float) -> None:
        """Stop being primary; not elected again before the given seconds have passed."""
        self.elections.step_down(self, seconds)

    async def step_up(self) -> None:
        """Be elected now, in a new term."""
        await self.elections.step_up(self)

    def last_write_time(self) -> int:
        """The cluster time of the newest entry that is on disk."""
        return self.store.last_committed

    def last_write_date(self) -> int:
        """The same as milliseconds since 1970."""
        return (self.store.last_committed >> 32) * 1000
