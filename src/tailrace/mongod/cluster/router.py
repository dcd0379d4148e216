"""A router: what drivers take for a mongos. It has clients, cursors and sessions, but no data of its own."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.log.event_log import EventLog
from tailrace.mongod.cluster.commands import COMMANDS
from tailrace.mongod.cluster.reads.results import ClusterResultWriter
from tailrace.mongod.cluster.reads.snapshots import ClusterSnapshots
from tailrace.mongod.cluster.transactions.transactions import ClusterTransactions
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.replication import Replication, SetState
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.snapshot_source import SnapshotSource
from tailrace.mongod.store.store import Store

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster


class Router(Server):
    """One router of a cluster. All routers of a cluster know the same, at any time."""

    owns_data = False
    is_router = True
    kind_of_transactions = ClusterTransactions

    def __init__(self, cluster: "Cluster", options: ServerOptions) -> None:
        super().__init__(options, wall=cluster.wall, log=cluster.log)
        self.cluster = cluster
        self.commands = COMMANDS
        self.cursors.snapshots = ClusterSnapshots(self.wall, cluster.states)
        self.replication = Replication(SetState(None))
        self.results = ClusterResultWriter()

    async def start(self) -> None:
        """Accept connections; the shards are running."""
        self.cluster_parameters = self.cluster.config.cluster_parameters
        self.default_concerns = self.cluster.config.default_concerns
        self.history = self.cluster.config.history
        await self._begin_serving()

    async def end(self) -> None:
        """End what it does for its clients, and close their connections."""
        await self._end_serving()

    def begin_stop(self) -> asyncio.Task[None]:
        """Begin to stop the whole cluster: it is one process."""
        return self.cluster.begin_stop()

    def _add_background_jobs(self) -> None:
        self._add_reapers()

    # -- what it has instead of data ------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """None: whatever changes data is for the shards."""
        raise CommandError(ErrorCode.IllegalOperation, "a router has no data of its own; ask a shard")

    @property
    def states(self) -> SnapshotSource:
        """The states of all shards as one."""
        return self.cluster.states

    @property
    def shards(self) -> Mapping[str, Server]:
        """All shards by name."""
        return self.cluster.shards

    def holding(self, shard: str | None) -> Server:
        """A shard, or the config server, which has databases of its own."""
        return self if shard is None else self.cluster.server(shard)

    @property
    def event_log(self) -> EventLog:
        """The events of all shards in one order."""
        return self.cluster.event_log

    @property
    def is_replicated(self) -> bool:
        """The shards have oplogs."""
        return True

    @property
    def uri(self) -> str:
        """The connection string; it names all routers."""
        return self.cluster.uri

    # -- time ---------------------------------------------------------------------------------------------

    def last_write_time(self) -> int:
        """The cluster time of the newest entry of any shard that is on disk."""
        return self.states.last_committed

    def reply_tail(self) -> bytes:
        """The times that end every reply."""
        if not self.cluster.is_running:
            return b""
        committed = self.states.last_committed
        return self._tail.encoded(max(self.states.clock.now, committed), committed)

    async def wait_for_time(self, context: Context) -> None:
        """Check `afterClusterTime`; what anybody can have heard of is in the stores already."""
        wanted = context.read_concern.after_cluster_time
        if wanted is not None:
            check_not_ahead("afterClusterTime", wanted, self.states.clock.now)
