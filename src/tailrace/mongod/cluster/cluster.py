"""A sharded cluster: its shards, its config server and its routers, from start to stop.

Everything runs in one process and one event loop. All stores take their times from one clock, so there is one
order over the whole cluster.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tailrace.log.merged_log import MergedLog
from tailrace.mongod.cluster.ddl.unfinished import finish_interrupted_commands
from tailrace.mongod.cluster.moves import migration, primary_move, resharding
from tailrace.mongod.cluster.moves.balancer import Balancer
from tailrace.mongod.cluster.moves.moves import DataMoves
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.reads.states import ClusterStates
from tailrace.mongod.cluster.router import Router, SharedByRouters
from tailrace.mongod.cluster.shards import Shards
from tailrace.mongod.cluster.transactions.two_phase_commit import TwoPhaseCommit
from tailrace.mongod.cluster.writes.retried import SessionLocks
from tailrace.mongod.server.access.stored import StoredAccess
from tailrace.mongod.server.admin.data_directory import DataDirectory
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.emulation.fail_points import WAIT_IN_MIGRATION
from tailrace.mongod.server.net.stopping import Stoppable
from tailrace.mongod.server.net.tls import connection_string
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.server import Server
from tailrace.mongod.server.streams.served_history import ServedHistory
from tailrace.mongod.store.clock import ClusterClock, WallClock


class Cluster(Stoppable):
    """Builds the parts of a cluster and starts them; `start` and `stop` run in one event loop."""

    def __init__(
        self, options: ServerOptions, *, wall: WallClock | None = None, log: Logbook | None = None
    ) -> None:
        super().__init__()
        self.options = options
        self.wall = wall or WallClock()
        self.log = log or Logbook(options.log_level)
        self.pipeline_status: Callable[[], dict[str, Any]] | None = None
        """The section `pipeline` of serverStatus; set by what runs the pipeline."""
        self.routers: list[Router] = []
        self._data: DataDirectory | None = None
        self._servers: Shards | None = None
        self._parts: SharedByRouters | None = None

    @property
    def history(self) -> ServedHistory | None:
        """The history that streams are served from besides the oplogs."""
        return self.routers[0].history if self.routers else None

    # -- life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; raises `UsageError` if that is not possible."""
        options = self.options
        options.check_cluster()
        self._data = DataDirectory(options.data)
        try:
            self._data.check_for_cluster()
            clock = ClusterClock(self.wall)
            shards = self._servers = Shards(
                options, self._data.path, wall=self.wall, log=self.log, clock=clock
            )
            await shards.start()
            parts = self._parts = await self._build(shards, clock)
            await parts.moves.recover()
            await finish_interrupted_commands(shards.config.store, self._router(parts, 0), self.log)
            for number in range(options.routers):
                self.routers.append(self._router(parts, number))
                await self.routers[-1].serve()
            parts.balancer.start()
        except BaseException:
            await self._stop()
            raise

    async def _build(self, shards: Shards, clock: ClusterClock) -> SharedByRouters:
        placement, config = shards.placement, shards.config.store
        states = ClusterStates(clock, placement, shards.stores)
        two_phase_commit = TwoPhaseCommit(shards.members, config, states.multi_shard_lock)
        await two_phase_commit.recover()
        moves = DataMoves(
            placement,
            shards.stores,
            states,
            self.log,
            {
                migration.KIND: migration.finish_range_move,
                primary_move.KIND: primary_move.finish_primary_move,
                resharding.KIND: resharding.finish_resharding,
            },
            in_background={migration.KIND},
            after_copy=lambda shard: shards.members[shard].fail_points.wait_while_on(WAIT_IN_MIGRATION),
        )
        return SharedByRouters(
            shards=shards,
            placement=placement,
            clock=clock,
            states=states,
            moves=moves,
            balancer=Balancer(moves, self.log),
            two_phase_commit=two_phase_commit,
            session_locks=SessionLocks(),
            pipeline_status=lambda: None if self.pipeline_status is None else self.pipeline_status(),
        )

    def _router(self, parts: SharedByRouters, number: int) -> Router:
        options = self.options
        port = options.port + number if options.port else 0
        own = replace(options, port=port, replica_set=None, data=None, history=None)
        return Router(own, parts, wall=self.wall, log=self.log, stop=self.begin_stop)

    async def _stop(self) -> None:
        for router in self.routers:
            await router.stop_accepting()
        await asyncio.gather(*(router.end() for router in self.routers))
        if self._parts is not None:
            await self._parts.balancer.stop()
            await self._parts.moves.stop()
            self._parts.is_running = False
        if self._servers is not None:
            await self._servers.stop()
        if self._data is not None:
            self._data.close()
            self._data = None

    # -- its parts, for what runs the cluster --------------------------------------------------------------

    @property
    def servers(self) -> Shards:
        assert self._servers is not None, "the cluster was started"
        return self._servers

    @property
    def parts(self) -> SharedByRouters:
        assert self._parts is not None, "the cluster was started"
        return self._parts

    @property
    def shards(self) -> Mapping[str, Server]:
        """The shards by name, in the order they joined."""
        return self.servers.servers

    @property
    def config(self) -> Server:
        return self.servers.config

    @property
    def access(self) -> StoredAccess:
        """The users and roles, which are on the config server."""
        return self.config.access

    @property
    def placement(self) -> Placement:
        return self.servers.placement

    @property
    def merged_log(self) -> MergedLog:
        return self.servers.merged_log

    @property
    def states(self) -> ClusterStates:
        return self.parts.states

    def server(self, name: str) -> Server:
        """A shard, or the config server."""
        return self.servers.server(name)

    @property
    def uri(self) -> str:
        """The connection string; it names all routers."""
        return connection_string([router.address for router in self.routers], {}, self.options.tls)
