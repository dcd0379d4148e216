"""A node that serves clients: a member of a replica set, or a router.

A node consists of the parts that its commands may use; `Context.node` is the node that runs a command. What
members and routers share is built here. A member (`replica_set/member.py`) adds its store and its set, a
router (`cluster/router.py`) its cluster; a command that needs these declares it by the type of its context.
Parts get what they need in their constructors, never the node, except those that are about whole nodes: the
dispatcher, elections, currentOp, serverStatus.
"""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.log.event_log import EventLog
from tailrace.mongod.server.access.login import Failures
from tailrace.mongod.server.access.stored import StoredAccess
from tailrace.mongod.server.admin.cluster_parameters import ClusterParameters
from tailrace.mongod.server.admin.counters import Counters
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.admin.parameters import MESSAGE_MEMORY, MESSAGE_TIMEOUT, Parameters
from tailrace.mongod.server.admin.profiler import Profiler
from tailrace.mongod.server.admin.stage_memory import NodeMemory
from tailrace.mongod.server.admin.usage import Usage
from tailrace.mongod.server.background import Background
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.default_concerns import DefaultConcerns
from tailrace.mongod.server.dispatch.dispatcher import Dispatcher
from tailrace.mongod.server.dispatch.times import NodeTimes
from tailrace.mongod.server.emulation.fail_points import CUT_OFF, FailPoints
from tailrace.mongod.server.emulation.release import Release
from tailrace.mongod.server.net.listener import Listener
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.reads.cursors import Cursors
from tailrace.mongod.server.reads.output import ResultWriter
from tailrace.mongod.server.reads.snapshots import SnapshotHistory
from tailrace.mongod.server.replica_set.replication import Replication
from tailrace.mongod.server.sessions.sessions import Sessions
from tailrace.mongod.server.sessions.transactions import Transactions
from tailrace.mongod.server.streams.served_history import ServedHistory
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.snapshot_source import SnapshotSource
from tailrace.mongod.store.store import Store

_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")
_SESSION_REAP_SECONDS: Final = 60.0
_TRANSACTION_REAP_SECONDS: Final = 1.0
_SECONDS_TO_FINISH: Final = 5.0
"""How long a node that stops waits for commands that cannot be interrupted."""


class Node(ABC):
    """The parts of a node; `serve` and `end` start and stop what it does for clients."""

    is_router: ClassVar[bool] = False
    kind_of_context: ClassVar[type[Context]] = Context

    replication: Replication
    times: NodeTimes
    """Cluster time, in requests and replies."""
    states: SnapshotSource
    """Where reads get their snapshots from."""
    snapshots: SnapshotHistory
    """States that are kept for the read concern `snapshot`."""
    transactions: Transactions
    results: ResultWriter
    """Writes the results of `$out` and `$merge`."""
    access: StoredAccess
    """Users and roles."""
    cluster_parameters: ClusterParameters
    default_concerns: DefaultConcerns
    profiler: Profiler | None = None
    """Writes commands to `system.profile`; None on a router."""

    def __init__(
        self,
        options: ServerOptions,
        *,
        wall: WallClock,
        log: Logbook,
        commands: Mapping[str, Command],
        stop: Callable[[], object],
    ) -> None:
        """``stop`` begins to stop the whole process, for the command `shutdown`."""
        self.options = options
        self.wall = wall
        self.log = log
        self.commands = commands
        """By name and alias."""
        self.stop = stop
        self.started = time.monotonic()
        self.release = Release.parse(options.server_version)
        """The MongoDB release that it presents."""
        self.parameters = Parameters(options.parameters, release=self.release)
        self.memory = NodeMemory(self.parameters, options.data)
        self.fail_points = FailPoints()
        self.counters = Counters()
        self.usage = Usage()
        self.failures = Failures()
        """Failed log-ins."""
        self.object_id_machine = secrets.randbits(32)
        """What the command `features` shows of new ObjectIds."""
        self.sessions = Sessions(
            wall.seconds,
            self.parameters["localLogicalSessionTimeoutMinutes"],
            most=self.parameters["maxSessions"],
        )
        self.cursors = Cursors(self.sessions, wall, self.parameters)
        self.operations: dict[int, Context] = {}
        """Running commands, by operation id."""
        self.background = Background(log)
        self.dispatcher = Dispatcher(self, self.kind_of_context)
        self.listener = Listener(
            self.dispatcher,
            self.fail_points,
            self.counters,
            log,
            max_connections=options.max_connections,
            message_bytes=self.parameters[MESSAGE_MEMORY],
            stalled_seconds=self.parameters[MESSAGE_TIMEOUT],
            tls=options.tls,
        )
        self._add_reapers()
        self.parameters.on_change.append(self._set_verbosity)

    # -- life ---------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Accept connections and begin the background jobs; raises `UsageError` if the port is taken."""
        if self.options.auth:
            self.listener.guard = self.access
            self.access.on_change.append(self.cursors.end_unauthorized)
        await self.listener.start(self.options.host, self.options.port)
        self.background.start()

    async def stop_accepting(self) -> None:
        """Accept no new connections, and refuse new commands."""
        await self.listener.stop_accepting()
        self.replication.shut_down()

    async def end(self) -> None:
        """End all commands and background jobs, and close all connections."""
        await self.background.stop()
        await self._end_operations()
        await self.listener.close()
        self.cursors.close()
        self.snapshots.close()
        self.memory.close()

    async def _end_operations(self) -> None:
        """Interrupt every command, and wait until the clients have their replies."""
        error = CommandError(ErrorCode.InterruptedAtShutdown, "interrupted at shutdown")
        # Writes may be waiting for documents that an idle transaction has locked.
        self.transactions.abort_all(error)
        for context in list(self.operations.values()):
            context.interrupt(error)
        deadline = time.monotonic() + _SECONDS_TO_FINISH
        while self.operations and time.monotonic() < deadline:
            await asyncio.sleep(0.001)

    def _add_reapers(self) -> None:
        """Add the background jobs of every node."""
        add, parameters = self.background.add, self.parameters
        add("abortExpiredTransactions", lambda: _TRANSACTION_REAP_SECONDS, self._reap_transactions)
        add("clientcursormon", lambda: parameters["clientCursorMonitorFrequencySecs"], self._reap_cursors)
        add("LogicalSessionCacheReap", lambda: _SESSION_REAP_SECONDS, self._reap_sessions)
        parameters.on_change.append(lambda _: self.background.pauses_changed())

    def _set_verbosity(self, _parameter: str) -> None:
        self.log.set_debug(self.parameters.log_verbosity.is_debug)

    async def _reap_cursors(self) -> None:
        number = self.cursors.reap()
        self.snapshots.reap()
        if number:
            self.log.info("QUERY", "Closed cursors that were not used", "clientcursormon", cursors=number)

    async def _reap_sessions(self) -> None:
        if number := self.sessions.reap():
            self.log.info("CONTROL", "Ended sessions that were not used", sessions=number)

    async def _reap_transactions(self) -> None:
        self.transactions.reap()

    async def advance_clock(self, seconds: float) -> None:
        """Let time pass at once, and run every background job that would have run meanwhile; for tests."""
        self.wall.advance(seconds)
        await self.background.run_all()

    # -- what differs between members and routers -----------------------------------------------------------

    @property
    @abstractmethod
    def event_log(self) -> EventLog:
        """What change streams read."""

    @property
    @abstractmethod
    def history(self) -> ServedHistory | None:
        """The history that streams are served from, besides the oplogs."""

    @property
    @abstractmethod
    def is_replicated(self) -> bool:
        """Whether there are oplogs: cluster time, transactions and change streams need one."""

    @abstractmethod
    def followed_store(self, ns: str) -> Store:
        """The store whose commits a tailable cursor on a collection waits for."""

    @abstractmethod
    def pipeline_status(self) -> dict[str, Any] | None:
        """The state of the pipeline that builds the history, if this process runs it."""

    def source_status(self) -> dict[str, Any] | None:
        """The state of the deployment whose streams are served; None if they are those of this one."""
        return None

    def collection_type(self, ns: str) -> str | None:
        """What a name belongs to, in the words of listCollections: collection, view or timeseries."""
        catalog = self.states.catalog
        if catalog.view(ns) is not None:
            return "view"
        collection = catalog.collection(ns)
        if collection is None:
            return None
        return "timeseries" if collection.is_timeseries else "collection"

    @property
    def oplog_size(self) -> int:
        """The number of bytes above which the oldest oplog entries are removed."""
        return self.options.oplog_bytes

    @property
    def members(self) -> "Sequence[Node]":
        """All members of the set, including this one; a router is its only member."""
        return (self,)

    @property
    def shards(self) -> "Mapping[str, Node]":
        """The shards of a router's cluster, by name."""
        return {}

    @property
    def keeper(self) -> "Node":
        """The node that stores users and roles."""
        return self

    def holding(self, shard: str | None) -> "Node":
        """The node that has a shard's part of the data; itself if there are no shards."""
        return self if shard is None else self.shards[shard]

    # -- address --------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.listener.port

    @property
    def address(self) -> str:
        """Host and port under which clients reach it."""
        advertised = self.options.advertised(0)
        if advertised is not None:
            return advertised
        host, port = self.options.host, self.port
        if host in _ANY_ADDRESS:
            host = "127.0.0.1"
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def is_cut_off(self) -> bool:
        """Whether a fail point separates this node from all others and from clients."""
        return self.fail_points.is_on(CUT_OFF)
