"""A router: what drivers take for a mongos. It has clients, cursors and sessions, but no data of its own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tailrace.log.event_log import EventLog
from tailrace.mongod.cluster.commands import COMMANDS
from tailrace.mongod.cluster.reads.results import ClusterResultWriter
from tailrace.mongod.cluster.reads.snapshots import ClusterSnapshots
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.transactions.transactions import ClusterTransactions
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.net.replies import ReplyTail
from tailrace.mongod.server.node import Node
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.replication import Replication, SetState
from tailrace.mongod.server.streams.served_history import ServedHistory

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster


class Router(Node):
    """One router of a running cluster; all of its routers use the same placement."""

    is_router = True
    kind_of_context = RouterContext

    def __init__(self, cluster: "Cluster", options: ServerOptions) -> None:
        super().__init__(
            options, wall=cluster.wall, log=cluster.log, commands=COMMANDS, stop=cluster.begin_stop
        )
        self.cluster = cluster
        self.states = cluster.states
        self.replication = Replication(SetState(None))
        self.times = RouterTimes(cluster)
        self.snapshots = ClusterSnapshots(self.wall, cluster.states)
        self.results = ClusterResultWriter(cluster)
        self.transactions = ClusterTransactions(
            cluster, self.sessions, self.cursors, self.counters, self.parameters, self.wall, self.log
        )
        config = cluster.config.first
        self.cluster_parameters = config.cluster_parameters
        self.default_concerns = config.default_concerns

    @property
    def event_log(self) -> EventLog:
        """The events of all shards in one order."""
        return self.cluster.event_log

    @property
    def history(self) -> ServedHistory | None:
        return self.cluster.config.history

    @property
    def is_replicated(self) -> bool:
        """Always: the shards have oplogs."""
        return True

    def pipeline_status(self) -> dict[str, Any] | None:
        status = self.cluster.pipeline_status
        return None if status is None else status()

    @property
    def shards(self) -> Mapping[str, Node]:
        return {name: shard.first for name, shard in self.cluster.shards.items()}

    def holding(self, shard: str | None) -> Node:
        """The shard, or the config server, which has databases of its own; itself without a name."""
        return self if shard is None else self.cluster.server(shard).first


class RouterTimes:
    """The cluster time of a router: that of all shards."""

    def __init__(self, cluster: "Cluster") -> None:
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
