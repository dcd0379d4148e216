"""The servers of a cluster: its config server, its shards, and removed shards that still run.

Each shard is a replica set with its own store, oplog and port. The config server is the first to start: its
store has the placement, which names the shards.
"""

import asyncio
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, PortError, UsageError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.log.event_log import EventLog
from tailrace.log.merged_log import MergedLog
from tailrace.log.oplogs import ShardOplogs
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.config_catalog import cluster_id
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.reads.document_lookup import document_lookup
from tailrace.mongod.cluster.reads.expiry_claim import expiry_claim
from tailrace.mongod.server.admin.expiry import claim_everything
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.member import Member
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.store import Store

SHARD_NAME: Final = "shard{}"


class Shards:
    """The servers of a cluster, and how shards join and leave it."""

    config: Server
    placement: Placement
    merged_log: MergedLog
    """The oplogs of all shards in one order."""

    def __init__(
        self, options: ServerOptions, path: Path, *, wall: WallClock, log: Logbook, clock: ClusterClock
    ) -> None:
        """``path`` is the cluster's data directory, with a folder for each server."""
        self._options = options
        self._path = path
        self._wall = wall
        self._log = log
        self._clock = clock
        self._is_started = False
        self.servers: dict[str, Server] = {}
        """The shards by name, in the order they joined."""
        self._removed: dict[str, Server] = {}
        """Shards that were removed and still run, as replica sets."""
        self.members: dict[str, Member] = {}
        """The nodes of the shards, which commands are sent to."""
        self.stores: dict[str, Store] = {}
        """The stores of the shards and of the config server."""

    # -- start and stop -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the config server and all shards; raises `UsageError` if that is not possible."""
        self.config = await self._start_server(CONFIG_SHARD, 0)
        self.stores[CONFIG_SHARD] = self.config.store
        self.placement = Placement(self.config.store)
        await self.placement.load()
        self.merged_log = MergedLog(
            self._clock,
            document_lookup(self.placement, self.stores),
        )
        self.placement.on_change.append(self._end_logs_of_removed)
        names = list(self.placement.shards) or [
            SHARD_NAME.format(number) for number in range(self._options.shards)
        ]
        for name in names:
            await self.start_shard(name)
        for name, left in self.placement.removed_shards.items():
            await self._start_removed(name, left)
        self._open_history()
        self._is_started = True

    async def stop(self) -> None:
        servers = [*self.servers.values(), *self._removed.values()]
        if CONFIG_SHARD in self.stores:
            servers.append(self.config)
        await asyncio.gather(*(server.stop() for server in servers))
        self.stores.clear()

    async def start_shard(self, name: str) -> Server:
        """Start a shard on its data; it is part of the placement when this returns."""
        shard = await self._start_server(name, self._free_number())
        await self._join(name, shard)
        return shard

    async def _start_removed(self, name: str, left: int) -> None:
        """Start a shard that was removed if the history does not have all of its oplog."""
        back = self.servers.get(name)
        if back is not None:
            self.merged_log.add_former(back.head, back.store, left)
            return
        history, host = self._options.history, ""
        if history is not None and (self._path / name).is_dir() and _held_through(history) < left:
            removed = self._removed[name] = await self._start_server(name, self._free_number())
            self.merged_log.add_former(removed.head, removed.store, left)
            host = f"{name}/{removed.address}"
        else:
            self.merged_log.lose(left)
        await self.placement.note_former_host(name, host)

    def _open_history(self) -> None:
        """Serve the cluster's history besides the oplogs, on the config server."""
        options, config = self._options, self.config
        if options.history is not None:
            with config.store.snapshot() as snapshot:
                oplogs = ShardOplogs(str(cluster_id(snapshot)), self.merged_log)
            head = self.merged_log if options.head else None
            config.serve_history(oplogs, options.history, head)
        elif not options.head:
            raise UsageError("without a head streams need a history; name its folder with --history")

    async def _start_server(self, name: str, number: int) -> Server:
        options = self._options
        port = options.port + options.routers + number if options.port else 0
        own = replace(
            options,
            data=self._path / name,
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
            # Clients connect to the routers' ports. A shard may have any port: the placement has its address.
            if not port:
                raise
            self._log.warning("NETWORK", "A shard listens on another port", shard=name, reason=str(error))
            return await self._started(name, replace(own, port=0))

    async def _started(self, name: str, options: ServerOptions) -> Server:
        server = Server(
            options,
            wall=self._wall,
            log=self._log,
            clock=self._clock,
            shard=name,
            holds_oplog=self._options.history is not None and name != CONFIG_SHARD,
            access=None if name == CONFIG_SHARD else self.config.first.access,
        )
        await server.start()
        return server

    def _free_number(self) -> int:
        """A number for the next shard whose port is not used by another one."""
        taken = {server.port for server in (*self.servers.values(), *self._removed.values())}
        first = self._options.port + self._options.routers
        return next(number for number in count(1) if not self._options.port or first + number not in taken)

    # -- joining and leaving ------------------------------------------------------------------------------

    async def add(self, name: str, members: str) -> None:
        """Add a shard to the running cluster: a new one, or, by its members, one that was removed.

        Its databases become part of the cluster; OperationFailed (96) if the cluster has one of them.
        """
        removed = self._removed.get(name)
        if members and (removed is None or members != removed.address):
            raise CommandError(
                ErrorCode.OperationFailed,
                f"{name}/{members} is not a shard that this process has run; addShard starts a new one if "
                "it is given nothing but a name",
            )
        shard = removed or await self._start_server(name, self._free_number())
        own = [known for known in shard.store.catalog.databases() if known not in INTERNAL_DATABASES]
        double = next((database for database in own if database in self.placement.databases), None)
        if double is not None:
            if removed is None:
                await shard.stop()
            raise CommandError(
                ErrorCode.OperationFailed,
                f"{name} cannot be added: it has a database {double}, as the cluster has; drop one",
            )
        self._removed.pop(name, None)
        await self._join(name, shard)
        for database in own:
            await self.placement.create_database(database, name)

    async def _join(self, name: str, shard: Server) -> None:
        node = shard.first
        node.ttl_monitor.claim = expiry_claim(self.placement, name)
        await node.cluster_parameters.copy_from(shard.store, self.config.first.cluster_parameters)
        self.stores[name] = shard.store
        self.servers[name] = shard
        self.members[name] = node
        # Before anybody can write to it, so that streams see everything from its first entry on. The entries
        # of a shard that was removed in between, from that time, do not belong to the cluster.
        known = self.placement.shards.get(name)
        joined = known.topology_time if known is not None and name in self.placement.removed_shards else 0
        self.merged_log.add(shard.head, shard.store, joined, joins_now=self._is_started)
        await self.placement.add_shard(name, f"{name}/{shard.address}")

    async def remove(self, name: str) -> None:
        """Remove a shard that owns nothing; it continues to run as a replica set."""
        await self.placement.remove_shard(name)
        shard = self._removed[name] = self.servers.pop(name)
        shard.first.ttl_monitor.claim = claim_everything
        del self.stores[name]
        del self.members[name]
        await self.placement.note_former_host(name, f"{name}/{shard.address}")

    def _end_logs_of_removed(self) -> None:
        """End the merged log's part of each shard that has left."""
        for name in self.merged_log.shards - self.placement.shards.keys():
            if name in self.placement.removed_shards:
                self.merged_log.remove(name)

    def free_name(self) -> str:
        """A name that no shard has or had."""
        taken = {*self.placement.shards, *self.placement.removed_shards}
        return next(name for name in map(SHARD_NAME.format, count()) if name not in taken)

    # -- access -------------------------------------------------------------------------------------------

    def server(self, name: str) -> Server:
        """A shard, or the config server."""
        return self.config if name == CONFIG_SHARD else self.servers[name]

    @property
    def event_log(self) -> EventLog:
        """What change streams read: the history, if there is one, and the merged oplogs."""
        history = self.config.history
        return self.merged_log if history is None else history.event_log


def _held_through(history: str | Path) -> int:
    """The cluster time up to which a history is complete."""
    from tailrace.lake.table import HistoryTable  # its packages are installed only where a history is built

    return HistoryTable.open(history).through if HistoryTable.exists(history) else 0
