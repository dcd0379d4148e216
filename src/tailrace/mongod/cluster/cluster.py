"""A sharded cluster: its shards, its config server and its routers, from start to stop.

Everything runs in one process and one event loop. Each shard is a replica set with a store, an oplog and a
port of its own, and knows nothing of the others; all stores ask one clock for their times, so there is one
order over the whole cluster.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, PortError, UsageError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.log.event_log import EventLog
from tailrace.log.merged_log import MergedLog
from tailrace.log.oplogs import ShardOplogs
from tailrace.mongod.cluster.ddl.unfinished import finish_interrupted_commands
from tailrace.mongod.cluster.moves import migration, primary_move, resharding
from tailrace.mongod.cluster.moves.balancer import Balancer
from tailrace.mongod.cluster.moves.moves import DataMoves
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.config_catalog import cluster_id
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.reads.document_lookup import document_lookup
from tailrace.mongod.cluster.reads.expiry_claim import expiry_claim
from tailrace.mongod.cluster.reads.states import ClusterStates
from tailrace.mongod.cluster.router import Router
from tailrace.mongod.cluster.transactions.two_phase_commit import TwoPhaseCommit
from tailrace.mongod.cluster.writes.retried import SessionLocks
from tailrace.mongod.server.admin.data_directory import DataDirectory
from tailrace.mongod.server.admin.expiry import claim_everything
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.net.stopping import Stoppable
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.store import Store

SHARD_NAME: Final = "shard{}"


class Cluster(Stoppable):
    """A cluster as `options` describe it; `start` and `stop` run in one event loop."""

    def __init__(
        self, options: ServerOptions, *, wall: WallClock | None = None, log: Logbook | None = None
    ) -> None:
        super().__init__()
        self.options = options
        self.wall = wall or WallClock()
        self.log = log or Logbook(options.log_level)
        self.clock = ClusterClock(self.wall)
        self.is_running = False
        self.pipeline_status: Callable[[], dict[str, Any]] | None = None
        """What whoever runs the pipeline tells of it, for serverStatus; set by them."""
        self.shards: dict[str, Server] = {}
        """The shards by name, in the order they joined"""
        self._former: dict[str, Server] = {}
        """Shards that were removed and still run, as replica sets: some streams are behind"""
        self.routers: list[Router] = []
        self.config: Server
        self.placement: Placement
        self.states: ClusterStates
        self.two_phase_commit: TwoPhaseCommit
        self.session_locks = SessionLocks()
        self.moves: DataMoves
        self.balancer: Balancer
        self._merged_log: MergedLog | None = None
        self.stores: dict[str, Store] = {}
        """The stores of the shards and of the config server, by name"""
        self._data: DataDirectory | None = None

    # -- life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; raises `UsageError` if something of it is not possible."""
        self.options.check_cluster()
        self._data = DataDirectory(self.options.data)
        try:
            self._data.check_for_cluster()
            await self._start_servers()
            self.states = ClusterStates(self.clock, self.placement, self.stores)
            self.two_phase_commit = TwoPhaseCommit(
                self.shards, self.config.store, self.states.multi_shard_lock
            )
            await self.two_phase_commit.recover()
            self.moves = DataMoves(
                self.placement,
                self.stores,
                self.states,
                self.log,
                {
                    migration.KIND: migration.finish_range_move,
                    primary_move.KIND: primary_move.finish_primary_move,
                    resharding.KIND: resharding.finish_resharding,
                },
                in_background={migration.KIND},
            )
            self.balancer = Balancer(self.moves, self.log)
            self.is_running = True
            await self.moves.recover()
            await finish_interrupted_commands(self, self._router(0))
            for number in range(self.options.routers):
                self.routers.append(self._router(number))
                await self.routers[-1].serve()
            self.balancer.start()
        except BaseException:
            await self._stop()
            raise

    async def _start_servers(self) -> None:
        self.config = await self._start_server(CONFIG_SHARD, 0)
        self.stores[CONFIG_SHARD] = self.config.store
        self.placement = Placement(self.config.store)
        await self.placement.load()
        self._merged_log = MergedLog(
            self.clock,
            document_lookup(self.placement, self.stores),
        )
        self.placement.on_change.append(self._let_shards_go)
        names = list(self.placement.shards) or [
            SHARD_NAME.format(number) for number in range(self.options.shards)
        ]
        for name in names:
            await self.start_shard(name)
        for name, left in self.placement.removed_shards.items():
            await self._start_former(name, left)
        self._open_history()

    def _open_history(self) -> None:
        """Serve what a history holds besides the oplogs; the config server looks after it."""
        options, config = self.options, self.config
        if options.history is not None:
            with config.store.snapshot() as snapshot:
                oplogs = ShardOplogs(str(cluster_id(snapshot)), self.merged_log)
            head = self.merged_log if options.head else None
            config.serve_history(oplogs, options.history, head)
        elif not options.head:
            raise UsageError("without a head streams need a history; name its folder with --history")

    async def _start_former(self, name: str, left: int) -> None:
        """Start a shard that has left if the pipeline has not read it to the end."""
        back = self.shards.get(name)
        if back is not None:
            self.merged_log.add_former(back.head, back.store, left)
            return
        data, history = self._data, self.options.history
        assert data is not None
        host = ""
        if history is not None and (data.path / name).is_dir() and _held_through(history) < left:
            former = self._former[name] = await self._start_server(name, self._free_number())
            self.merged_log.add_former(former.head, former.store, left)
            host = f"{name}/{former.address}"
        else:
            self.merged_log.lose(left)
        await self.placement.note_former_host(name, host)

    async def start_shard(self, name: str) -> Server:
        """Start a shard on its data; the placement knows it when this returns."""
        shard = await self._start_server(name, self._free_number())
        await self._let_join(name, shard)
        return shard

    async def _let_join(self, name: str, shard: Server) -> None:
        shard.first.ttl_monitor.claim = expiry_claim(self.placement, name)
        await shard.first.cluster_parameters.adopt(shard.store, self.config.first.cluster_parameters)
        self.stores[name] = shard.store
        self.shards[name] = shard
        # Before anybody can write to it: streams see everything from its first entry on. One that has been
        # away has entries of that time, which were never the cluster's.
        known = self.placement.shards.get(name)
        joined = known.topology_time if known is not None and name in self.placement.removed_shards else 0
        self.merged_log.add(shard.head, shard.store, joined, joins_now=self.is_running)
        await self.placement.add_shard(name, f"{name}/{shard.address}")

    async def take_in(self, name: str, members: str) -> None:
        """Let a shard join the running cluster: a new one, or, by its members, one that was removed.

        Databases that it has become part of the cluster; OperationFailed (96) if the cluster has one of them.
        """
        former = self._former.get(name)
        if members and (former is None or members != former.address):
            raise CommandError(
                ErrorCode.OperationFailed,
                f"{name}/{members} is not a shard that this process has run; addShard starts a new one if "
                "it is given nothing but a name",
            )
        shard = former or await self._start_server(name, self._free_number())
        own = [known for known in shard.store.catalog.databases() if known not in INTERNAL_DATABASES]
        double = next((database for database in own if database in self.placement.databases), None)
        if double is not None:
            if former is None:
                await shard.stop()
            raise CommandError(
                ErrorCode.OperationFailed,
                f"{name} cannot be added: it has a database {double}, as the cluster has; drop one",
            )
        self._former.pop(name, None)
        await self._let_join(name, shard)
        for database in own:
            await self.placement.create_database(database, name)

    async def let_go(self, name: str) -> None:
        """Take a shard that owns nothing out of the cluster; it goes on as a replica set."""
        await self.placement.remove_shard(name)
        shard = self._former[name] = self.shards.pop(name)
        shard.first.ttl_monitor.claim = claim_everything
        del self.stores[name]
        await self.placement.note_former_host(name, f"{name}/{shard.address}")

    def free_name(self) -> str:
        """A name that no shard has or had."""
        taken = {*self.placement.shards, *self.placement.removed_shards}
        return next(name for name in map(SHARD_NAME.format, count()) if name not in taken)

    def _free_number(self) -> int:
        """The next shard's; it is what its port goes by."""
        taken = {server.port for server in (*self.shards.values(), *self._former.values())}
        first = self.options.port + self.options.routers
        return next(number for number in count(1) if not self.options.port or first + number not in taken)

    def _let_shards_go(self) -> None:
        """Let the event log end with the shards that have left."""
        for name in self.merged_log.shards - self.placement.shards.keys():
            if name in self.placement.removed_shards:
                self.merged_log.remove(name)

    async def _start_server(self, name: str, number: int) -> Server:
        options, data = self.options, self._data
        assert data is not None
        port = options.port + options.routers + number if options.port else 0
        own = replace(
            options,
            data=data.path / name,
            port=port,
            replica_set=name,
            advertise=None,
            history=None,
            head=True,
            shards=0,
        )
        try:
            return await self._started(name, own)
        except PortError as error:
            # Clients need the routers' ports; a shard can be anywhere, as the config server says where.
            if not port:
                raise
            self.log.warning("NETWORK", "A shard listens on another port", shard=name, reason=str(error))
            return await self._started(name, replace(own, port=0))

    async def _started(self, name: str, options: ServerOptions) -> Server:
        server = Server(
            options,
            wall=self.wall,
            log=self.log,
            clock=self.clock,
            shard=name,
            holds_oplog=self.options.history is not None and name != CONFIG_SHARD,
        )
        await server.start()
        return server

    def _router(self, number: int) -> Router:
        options = self.options
        port = options.port + number if options.port else 0
        return Router(self, replace(options, port=port, replica_set=None, data=None, history=None))

    async def _stop(self) -> None:
        for router in self.routers:
            await router.stop_accepting()
        await asyncio.gather(*(router.end() for router in self.routers))
        if self.is_running:
            await self.balancer.stop()
            await self.moves.stop()
            self.is_running = False
        servers = [*self.shards.values(), *self._former.values()]
        if CONFIG_SHARD in self.stores:
            servers.append(self.config)
        await asyncio.gather(*(server.stop() for server in servers))
        self.stores.clear()
        if self._data is not None:
            self._data.close()
            self._data = None

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def merged_log(self) -> MergedLog:
        """The oplogs of all shards in one order."""
        assert self._merged_log is not None, "the cluster is running"
        return self._merged_log

    @property
    def event_log(self) -> EventLog:
        """What change streams read."""
        history = self.config.history
        return self.merged_log if history is None else history.event_log

    @property
    def uri(self) -> str:
        """The connection string; it names all routers."""
        return f"mongodb://{','.join(router.address for router in self.routers)}/"

    def server(self, name: str) -> Server:
        """A shard, or the config server."""
        return self.config if name == CONFIG_SHARD else self.shards[name]


def _held_through(history: Path) -> int:
    """The cluster time up to which a history has everything."""
    from tailrace.lake.table import HistoryTable  # its packages are there only where a history is built

    return HistoryTable.open(history).through if HistoryTable.exists(history) else 0
