"""A router, which drivers use like a mongos: it has clients, cursors and sessions, but no data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.log.event_log import EventLog
from tailrace.mongod.cluster.commands import COMMANDS
from tailrace.mongod.cluster.moves.balancer import Balancer
from tailrace.mongod.cluster.moves.moves import DataMoves
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.reads.results import ClusterResultWriter
from tailrace.mongod.cluster.reads.snapshots import ClusterSnapshots
from tailrace.mongod.cluster.reads.states import ClusterStates
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.shards import Shards
from tailrace.mongod.cluster.transactions.transactions import ClusterParts, ClusterTransactions
from tailrace.mongod.cluster.transactions.two_phase_commit import TwoPhaseCommit
from tailrace.mongod.cluster.writes.retried import SessionLocks
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.net.replies import ReplyTail
from tailrace.mongod.server.node import Node
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.member import Member
from tailrace.mongod.server.replica_set.replication import Replication, SetState
from tailrace.mongod.server.streams.served_history import ServedHistory
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.store import Store


@dataclass(eq=False)
class SharedByRouters:
    """The parts of a cluster, which all of its routers use."""

    shards: Shards
    placement: Placement
    clock: ClusterClock
    states: ClusterStates
    moves: DataMoves
    balancer: Balancer
    two_phase_commit: TwoPhaseCommit
    session_locks: SessionLocks
    pipeline_status: Callable[[], dict[str, Any] | None]
    is_running: bool = True


class Router(Node):
    """One router of a running cluster."""

    is_router = True
    kind_of_context = RouterContext
    states: ClusterStates

    def __init__(
        self,
        options: ServerOptions,
        cluster: SharedByRouters,
        *,
        wall: WallClock,
        log: Logbook,
        stop: Callable[[], object],
    ) -> None:
        super().__init__(options, wall=wall, log=log, commands=COMMANDS, stop=stop)
        self.placement = cluster.placement
        """Where databases, collections and chunks are."""
        self.servers = cluster.shards
        """Starts, adds and removes shards."""
        self.stores = cluster.shards.stores
        """The stores of the shards and of the config server, by name."""
        self.clock = cluster.clock
        self.states = cluster.states
        self.moves = cluster.moves
        self.balancer = cluster.balancer
        self.session_locks = cluster.session_locks
        self._pipeline_status = cluster.pipeline_status
        self.replication = Replication(SetState(None))
        self.times = RouterTimes(cluster)
        self.snapshots = ClusterSnapshots(self.wall, cluster.states)
        self.results = ClusterResultWriter(cluster.placement, cluster.shards.stores)
        self.transactions = ClusterTransactions(
            ClusterParts(cluster.shards.members, cluster.placement, cluster.states, cluster.two_phase_commit),
            self.sessions,
            self.cursors,
            self.counters,
            self.parameters,
            self.wall,
            self.log,
        )
        config = self.config
        self.cluster_parameters = config.cluster_parameters
        self.default_concerns = config.default_concerns
        self.access = config.access

    @property
    def shards(self) -> Mapping[str, Member]:
        """The nodes of the shards by name, in the order they joined."""
        return self.servers.members

    @property
    def config(self) -> Member:
        """The node of the config server."""
        return self.servers.config.first

    @property
    def keeper(self) -> Member:
        """The config server, which has the database admin."""
        return self.config

    def member(self, name: str) -> Member:
        """The node of a shard, or of the config server."""
        return self.servers.server(name).first

    def holding(self, shard: str | None) -> Node:
        """The node of a shard, or of the config server, which has databases too; itself without a name."""
        return self if shard is None else self.member(shard)

    @property
    def event_log(self) -> EventLog:
        """The events of all shards in one order."""
        return self.servers.event_log

    @property
    def history(self) -> ServedHistory | None:
        return self.config.history

    @property
    def is_replicated(self) -> bool:
        """Always: the shards have oplogs."""
        return True

    def followed_store(self, ns: str) -> Store:
        """That of the shard with a capped collection, which cannot be sharded."""
        return self.stores[self.placement.shards_of(ns)[0]]

    def pipeline_status(self) -> dict[str, Any] | None:
        return self._pipeline_status()


class RouterTimes:
    """The cluster time of a router: that of all shards."""

    def __init__(self, cluster: SharedByRouters) -> None:
        self._cluster = cluster
        self._tail = ReplyTail()

    def hear(self, time: int) -> None:
        self._cluster.clock.advance_to(time)

    async def wait_for(self, wanted: int) -> None:
        """Check the time; every time that a client can know is in the stores already."""
        check_not_ahead("afterClusterTime", wanted, self._cluster.clock.now)

    def reply_tail(self) -> bytes:
        if not self._cluster.is_running:
            return b""
        committed = self._cluster.states.last_committed
        return self._tail.encoded(max(self._cluster.clock.now, committed), committed)
