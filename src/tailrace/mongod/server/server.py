"""The server: a store, its head, sessions, cursors and sockets, from start to stop."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.stages.plan import END_OF_TRANSACTION_FLAG
from tailrace.log.event_log import EventLog
from tailrace.log.head import Head
from tailrace.log.oplogs import StoreOplog
from tailrace.mongod.server.admin.cluster_parameters import ClusterParameters
from tailrace.mongod.server.admin.counters import Counters
from tailrace.mongod.server.admin.data_directory import DataDirectory
from tailrace.mongod.server.admin.expiry_task import ExpiryTask
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.admin.parameters import Parameters
from tailrace.mongod.server.background import Background
from tailrace.mongod.server.commands import COMMANDS
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.default_concerns import DefaultConcerns
from tailrace.mongod.server.dispatch.dispatcher import Dispatcher
from tailrace.mongod.server.emulation.fail_points import CUT_OFF, FailPoints
from tailrace.mongod.server.emulation.release import VECTORED_INSERTS, Release
from tailrace.mongod.server.net.listener import Listener
from tailrace.mongod.server.net.replies import ReplyTail
from tailrace.mongod.server.net.stopping import Stoppable
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.reads.cursors import Cursors
from tailrace.mongod.server.reads.output import ResultWriter
from tailrace.mongod.server.replica_set.elections import Elections
from tailrace.mongod.server.replica_set.periodic_noop import PeriodicNoop
from tailrace.mongod.server.replica_set.replication import Replication, SetState
from tailrace.mongod.server.sessions.sessions import Sessions
from tailrace.mongod.server.sessions.transactions import Transactions
from tailrace.mongod.server.streams.served_history import ServedHistory
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.snapshot_source import SnapshotSource
from tailrace.mongod.store.store import Store, no_op

_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")
_SESSION_REAP_SECONDS: Final = 60.0
_HISTORY_LAG_SECONDS: Final = 30.0
_SECONDS_TO_FINISH: Final = 5.0
"""How long a server that stops waits for commands that do not let themselves be interrupted."""


class Server(Stoppable):
    """The first member of a replica set, which has the data; or a standalone server.

    `start` and `stop` run in one event loop, and do so for all members of the set.
    """

    owns_data = True
    """Whether it is the one that looks after the data; further members use it."""
    is_router = False
    """Whether it stands before the shards of a cluster and has no data of its own."""
    kind_of_transactions: type[Transactions] = Transactions

    def __init__(
        self,
        options: ServerOptions | None = None,
        *,
        wall: WallClock | None = None,
        log: Logbook | None = None,
        clock: ClusterClock | None = None,
        shard: str = "",
        holds_oplog: bool = False,
    ) -> None:
        """Servers of one cluster share a ``clock``; ``shard`` is the name that one of them has there.

        With ``holds_oplog`` no entry is removed before somebody says that a history holds it.
        """
        super().__init__()
        self.options = options or ServerOptions()
        self.wall = wall or WallClock()
        """The time of day; tests move it."""
        self.log = log or Logbook(self.options.log_level)
        self.commands: Mapping[str, Command] = COMMANDS
        """What it can be asked, by name and alias."""
        self._clock = clock
        self._shard = shard
        self._holds_oplog = holds_oplog or (
            self.options.history is not None and self.options.replica_set is not None
        )
        self.release = Release.parse(self.options.server_version)
        """The MongoDB release it presents."""
        self.parameters = Parameters(self.options.parameters, release=self.release)
        self.fail_points = FailPoints()
        self.counters = Counters()
        self.sessions = Sessions(self.wall.seconds, self.parameters["localLogicalSessionTimeoutMinutes"])
        self.cursors = Cursors(self.sessions, self.wall, self.parameters)
        self.background = Background(self.log)
        """What is done again and again; more can be added before `start`."""
        self.cluster_parameters = ClusterParameters()
        self.default_concerns = DefaultConcerns()
        self.results = ResultWriter()
        """Where `$out` and `$merge` put what they get."""
        self.transactions = self.kind_of_transactions(self)
        self.expiry = ExpiryTask(self)
        self.operations: dict[int, Context] = {}
        """Commands under way, by operation id."""
        self.dispatcher = Dispatcher(self)
        self.listener = Listener(self)
        self.replication = Replication(SetState(self.options.replica_set))
        self.members: list[Server] = [self]
        """All members of the set, this one included"""
        self.elections = Elections(self.members)
        self.started = time.monotonic()
        self._store: Store | None = None
        self._event_log: EventLog | None = None
        self._head: Head | None = None
        self.history: ServedHistory | None = None
        """What is served from a history besides the oplog; None without one."""
        self.pipeline_status: Callable[[], dict[str, Any]] | None = None
        """What whoever runs the pipeline tells of it, for serverStatus; set by them."""
        self._data: DataDirectory | None = None
        self._tail = ReplyTail()
        self._add_background_jobs()

    # -- life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the data and accept connections; raises `UsageError` if one of them is not possible."""
        options = self.options
        options.check_members()
        self.log.forget_startup()
        self._data = DataDirectory(options.data)
        try:
            self._data.check_for_replica_set()
            self._store = Store.open(
                self._data.path,
                wall=self.wall,
                clock=self._clock,
                oplog_size=options.oplog_bytes,
                map_size=options.max_bytes,
                held_through=0 if self._holds_oplog else None,
            )
            self._store.attach(asyncio.get_running_loop())
            self._store.logs_batches = self.release.has(VECTORED_INSERTS)
            self.cluster_parameters.load(self._store)
            self.expiry.load(self._store)
            self._event_log = self._open_event_log(self._store)
            self.default_concerns.load(self._store)
            self.replication = Replication(SetState(options.replica_set, self._store.term))
            await self._begin_serving()
            await self._start_members()
        except BaseException:
            await self._end_serving()
            await self._close_history()
            self._close_data()
            raise
        self.log.info(
            "CONTROL",
            "Accepting connections",
            "initandlisten",
            address=",".join(member.member for member in self.members),
            data=str(self._data.path),
        )
        if not _is_loopback(options.host):
            self.log.startup_warning(
                "CONTROL",
                "Access control is not enabled, and the server listens on more than the loopback address. "
                "Whoever can connect to it can read and change all data",
            )

    async def _stop(self) -> None:
        await self._end_serving()
        await self._close_history()
        self._close_data()
        self.log.info("CONTROL", "Shut down", "initandlisten")

    async def _begin_serving(self) -> None:
        await self.listener.start(self.options.host, self.options.port)
        self.background.start()

    async def _start_members(self) -> None:
        from tailrace.mongod.server.replica_set.members import further_members  # they are servers, too

        for member in further_members(self):
            self.members.append(member)
            await member.start()

    async def _end_serving(self) -> None:
        """Let all members come to their end, all at the same time."""
        for member in self.members:
            await member.listener.stop_accepting()
            member.replication.shut_down()
        self.elections.cancel()
        await asyncio.gather(*(member.come_to_an_end() for member in self.members))

    async def come_to_an_end(self) -> None:
        """End what this member does by itself and for its clients."""
        await self.background.stop()
        await self._end_operations()
        await self.listener.close()
        self.cursors.close()

    async def _end_operations(self) -> None:
        """Let everything under way come to its end, so that its clients are told."""
        error = CommandError(ErrorCode.InterruptedAtShutdown, "interrupted at shutdown")
        # Writes may be waiting for documents that an idle transaction has locked.
        self.transactions.abort_all(error)
        for context in list(self.operations.values()):
            context.interrupt(error)
        deadline = time.monotonic() + _SECONDS_TO_FINISH
        while self.operations and time.monotonic() < deadline:
            await asyncio.sleep(0.001)

    def _add_background_jobs(self) -> None:
        no_op_writer = PeriodicNoop(self)
        self.background.add("NoopWriter", no_op_writer.pause, no_op_writer.run)
        self.background.add("HistoryLag", lambda: _HISTORY_LAG_SECONDS, self._watch_history)
        self.expiry.register()
        self._add_reapers()

    def _add_reapers(self) -> None:
        """What every server does, with data or without."""
        self.background.add(
            "clientcursormon", lambda: self.parameters["clientCursorMonitorFrequencySecs"], self._reap_cursors
        )
        self.background.add("LogicalSessionCacheReap", lambda: _SESSION_REAP_SECONDS, self._reap_sessions)
        self.parameters.on_change.append(lambda _: self.background.pauses_changed())

    async def _reap_cursors(self) -> None:
        if number := self.cursors.reap():
            self.log.info("QUERY", "Closed cursors that were not used", "clientcursormon", cursors=number)

    async def _reap_sessions(self) -> None:
        if number := self.sessions.reap():
            self.log.info("CONTROL", "Ended sessions that were not used", sessions=number)

    def _open_event_log(self, store: Store) -> EventLog:
        options = self.options
        self._head = None
        if options.head or options.history is None:
            marks_end = bool(self.parameters[END_OF_TRANSACTION_FLAG])
            self._head = Head(store, shard=self._shard, marks_end=marks_end)
        if options.history is None or not self.replication.is_replica_set:
            if not options.head:
                raise UsageError("without a head streams need a history; name its folder with --history")
            return self.head
        self.history = ServedHistory(self, StoreOplog(store), options.history, self._head)
        return self.history.event_log

    async def _watch_history(self) -> None:
        if self.history is not None and self.owns_data:
            await self.history.warn_if_behind()

    async def _close_history(self) -> None:
        history, self.history = self.history, None
        if history is not None:
            await history.close()

    def _share_data(self, owner: "Server") -> None:
        """Use the data that another member has opened."""
        self._store, self._event_log, self._head = owner._store, owner._event_log, owner._head
        self.history = owner.history

    def _close_data(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._data is not None:
            self._data.close()
            self._data = None

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise CommandError(ErrorCode.InterruptedAtShutdown, "the server is not running")
        return self._store

    @property
    def states(self) -> SnapshotSource:
        """Where what is read comes from."""
        return self.store

    @property
    def shards(self) -> "Mapping[str, Server]":
        """The servers behind a router, by name; there are none behind others."""
        return {}

    def holding(self, shard: str | None) -> "Server":
        """The server that has a shard's part of the data; itself where there are no shards."""
        return self if shard is None else self.shards[shard]

    @property
    def is_replicated(self) -> bool:
        """Whether there are oplogs: cluster time, transactions and change streams need one."""
        return self.replication.is_replica_set

    @property
    def head(self) -> Head:
        """The part of the event log that is in memory, on a server that has one."""
        if self._head is None:
            raise CommandError(ErrorCode.InterruptedAtShutdown, "the server is not running, or has no head")
        return self._head

    @property
    def event_log(self) -> EventLog:
        """What change streams read."""
        if self._event_log is None:
            raise CommandError(ErrorCode.InterruptedAtShutdown, "the server is not running")
        return self._event_log

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.listener.port

    @property
    def member(self) -> str:
        """Host and port under which clients reach it."""
        advertised = self.options.advertised(0)
        if advertised is not None:
            return advertised
        host = self.options.host
        if host in _ANY_ADDRESS:
            host = "127.0.0.1"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def uri(self) -> str:
        """The connection string; it names all members of the set."""
        name = self.replication.set_name
        hosts = ",".join(member.member for member in self.members)
        return f"mongodb://{hosts}/" + (f"?replicaSet={name}" if name is not None else "")

    @property
    def primary(self) -> "Server | None":
        """The member that takes writes now, if there is one."""
        return next((member for member in self.members if member.replication.is_primary), None)

    @property
    def is_cut_off(self) -> bool:
        """Whether a fail point keeps this member from all others and from clients."""
        return self.fail_points.is_on(CUT_OFF)

    # -- time ---------------------------------------------------------------------------------------------

    def last_write_time(self) -> int:
        """The cluster time of the newest entry that is on disk."""
        return self.store.last_committed

    def last_write_date(self) -> int:
        """The same as milliseconds since 1970."""
        return (self.store.last_committed >> 32) * 1000

    def reply_tail(self) -> bytes:
        """The times that end every reply; nothing on a standalone server."""
        store = self._store
        if store is None or not self.replication.is_replica_set:
            return b""
        committed = store.last_committed
        return self._tail.encoded(max(store.clock.now, committed), committed)

    async def wait_for_time(self, context: Context) -> None:
        """Make sure that what a command reads is not older than its `afterClusterTime`."""
        wanted = context.read_concern.after_cluster_time
        if wanted is None or wanted <= self.store.last_committed:
            return
        if not self.replication.is_replica_set:
            raise CommandError(ErrorCode.NotAReplicaSet, "afterClusterTime needs a replica set")
        check_not_ahead("afterClusterTime", wanted, self.store.clock.now)
        # A shard that has promised the time already need not write: the clock of a cluster is others', too.
        if not self._shard or wanted > self.store.promised:
            await self.write_no_op({"append noop write": 1})

    async def write_no_op(self, message: dict[str, Any]) -> int:
        """Let the cluster time go on by an entry that changes nothing; its time."""
        return await self.store.write(lambda unit: unit.log(no_op(message)))

    async def advance_clock(self, seconds: float) -> None:
        """Let time pass at once, and do what would have been done meanwhile; for tests."""
        self.wall.advance(seconds)
        for member in self.members:
            await member.background.run_all()

    async def truncate_oplog(self, before: int) -> None:
        """Remove the oplog's entries older than a cluster time, as if it had been full; for tests."""
        await self.store.write(self.store.truncate_oplog(before))

    # -- elections ----------------------------------------------------------------------------------------

    async def step_down(self, seconds: float) -> None:
        """Stop being primary, and not be elected again before that many seconds are over."""
        self.elections.step_down(self, seconds)

    async def step_up(self) -> None:
        """Be elected now: a new term begins, and an entry says so."""
        await self.elections.step_up(self)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
