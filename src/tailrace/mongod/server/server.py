"""A replica set in one process, or a standalone server: its data and its members, from start to stop."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.stages.plan import END_OF_TRANSACTION_FLAG
from tailrace.log.event_log import EventLog
from tailrace.log.head import HeadLog
from tailrace.log.oplogs import Oplogs, StoreOplog
from tailrace.mongod.server.access.stored import StoredAccess
from tailrace.mongod.server.admin.cluster_parameters import ClusterParameters
from tailrace.mongod.server.admin.data_directory import DataDirectory
from tailrace.mongod.server.admin.expiry import ImageExpiry
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.admin.parameters import Parameters
from tailrace.mongod.server.commands import COMMANDS
from tailrace.mongod.server.dispatch.default_concerns import DefaultConcerns
from tailrace.mongod.server.dispatch.dispatcher import Dispatcher
from tailrace.mongod.server.dispatch.internal_calls import call
from tailrace.mongod.server.emulation.release import VECTORED_INSERTS, Release
from tailrace.mongod.server.net.stopping import Stoppable
from tailrace.mongod.server.net.tls import connection_string
from tailrace.mongod.server.net.turns import turns_of
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.member import Member, SharedBySet
from tailrace.mongod.server.replica_set.replica_set_config import store_configuration
from tailrace.mongod.server.replica_set.replication import SetState
from tailrace.mongod.server.streams.served_history import ServedHistory
from tailrace.mongod.store.clock import ClusterClock, WallClock
from tailrace.mongod.store.store import Store

_HISTORY_LAG_SECONDS: Final = 30.0


class Server(Stoppable):
    """Opens the data, builds the members on it and starts them; `start` and `stop` run in one event loop."""

    def __init__(
        self,
        options: ServerOptions | None = None,
        *,
        wall: WallClock | None = None,
        log: Logbook | None = None,
        clock: ClusterClock | None = None,
        shard: str = "",
        holds_oplog: bool = False,
        access: StoredAccess | None = None,
    ) -> None:
        """Servers of one cluster share a ``clock``; ``shard`` is the name of this one in the cluster.

        With ``holds_oplog``, an oplog entry is removed only after a history has it. ``access`` are the users
        of the cluster, if they are stored on another server.
        """
        super().__init__()
        self.options = options or ServerOptions()
        self.wall = wall or WallClock()
        """The time of day; tests move it."""
        self.log = log or Logbook(self.options.log_level)
        self.pipeline_status: Callable[[], dict[str, Any]] | None = None
        """The section `pipeline` of serverStatus; set by what runs the pipeline."""
        self._clock = clock
        self._access = access
        self._shard = shard
        self._holds_oplog = holds_oplog or (
            self.options.history is not None and self.options.replica_set is not None
        )
        release = Release.parse(self.options.server_version)
        self._logs_batches = release.has(VECTORED_INSERTS)
        self._rules = release.catalog
        parameters = Parameters(self.options.parameters, release=release)
        self._marks_end = bool(parameters[END_OF_TRANSACTION_FLAG])
        self._data: DataDirectory | None = None
        self._store: Store | None = None
        self._history: ServedHistory | None = None
        self._images: ImageExpiry | None = None
        self._set: SharedBySet | None = None

    # -- life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the data and accept connections; raises `UsageError` if that is not possible."""
        options = self.options
        options.check_members()
        self.log.forget_startup()
        self._data = DataDirectory(options.data)
        try:
            self._data.check_for_replica_set()
            store = self._store = self._open_store(self._data.path)
            self._set = self._open_set(store)
            await self._start_members(self._set)
            if self.members[0].replication.is_replica_set:
                await store_configuration(self.members[0])
        except BaseException:
            await self._end()
            raise
        self.log.info(
            "CONTROL",
            "Accepting connections",
            "initandlisten",
            address=",".join(member.address for member in self.members),
            data=str(self._data.path),
        )
        if not options.auth and not _is_loopback(options.host):
            self.log.startup_warning(
                "CONTROL",
                "Access control is not enabled, and the server listens on more than the loopback address. "
                "Everybody who can connect can read and change all data",
            )

    async def _stop(self) -> None:
        await self._end()
        self.log.info("CONTROL", "Shut down", "initandlisten")

    def _open_store(self, path: Path) -> Store:
        options = self.options
        store = Store.open(
            path,
            wall=self.wall,
            clock=self._clock,
            oplog_size=options.oplog_bytes,
            map_size=options.max_bytes,
            held_through=0 if self._holds_oplog else None,
        )
        loop = asyncio.get_running_loop()
        store.attach(loop)
        turns_of(loop).watch_writer(store.is_writing)
        store.logs_batches = self._logs_batches
        store.rules = self._rules
        return store

    def _open_set(self, store: Store) -> SharedBySet:
        options = self.options
        cluster_parameters, default_concerns = ClusterParameters(), DefaultConcerns()
        cluster_parameters.load(store)
        default_concerns.load(store)
        event_log, head = self._open_log(store)
        event_log.served = options.kept
        return SharedBySet(
            store=store,
            state=SetState(options.replica_set, store.term),
            event_log=event_log,
            head=head,
            history=self._history,
            cluster_parameters=cluster_parameters,
            default_concerns=default_concerns,
            access=self._open_access(store),
            pipeline_status=lambda: None if self.pipeline_status is None else self.pipeline_status(),
            is_shard=bool(self._shard),
        )

    def _open_log(self, store: Store) -> tuple[EventLog, HeadLog | None]:
        """What streams read, and the part of it that is in memory; opens the history."""
        options = self.options
        head = None
        if options.head or options.history is None:
            head = HeadLog(store, shard=self._shard, marks_end=self._marks_end)
        if options.history is not None and options.replica_set is not None:
            self._history = self._open_history(StoreOplog(store), options.history, head)
            return self._history.event_log, head
        if not options.head or head is None:
            raise UsageError("without a head streams need a history; name its folder with --history")
        return head, head

    def _open_access(self, store: Store) -> StoredAccess:
        """The users of this deployment; those of a cluster are on its config server."""
        if self._access is not None:
            return self._access
        access = StoredAccess(store)
        if self.options.auth:
            access.follow()
        return access

    def serve_history(self, oplogs: Oplogs, path: str | Path, head: EventLog | None) -> ServedHistory:
        """Open the history of a whole cluster, on its config server."""
        history = self._history = self._shared.history = self._open_history(oplogs, path, head)
        return history

    def _open_history(self, oplogs: Oplogs, path: str | Path, head: EventLog | None) -> ServedHistory:
        return ServedHistory(
            oplogs,
            path,
            head,
            log=self.log,
            images_expired_before=lambda: None if self._images is None else self._images.expired_before,
        )

    async def _start_members(self, shared: SharedBySet) -> None:
        options = self.options
        first = self._new_member(options, shared)
        self._images = ImageExpiry(
            shared.store,
            shared.cluster_parameters,
            first.fail_points,
            self.wall,
            first.counters.expiry,
            has_history=lambda: shared.history is not None,
        )
        first.background.add(
            "ChangeStreamExpiredPreImagesRemover",
            lambda: float(first.parameters["expiredChangeStreamPreImageRemovalJobSleepSecs"]),
            self._images.run,
        )
        first.background.add("HistoryLag", lambda: _HISTORY_LAG_SECONDS, self._watch_history)
        await self._create_first_user(first)
        await first.serve()
        for number in range(1, options.members):
            port = first.port + number if options.port else 0
            if options.member_ports:
                port = options.member_ports[number - 1]
            own = replace(options, port=port, advertise=options.advertised(number), members=1)
            await self._new_member(own, shared).serve()

    async def _create_first_user(self, first: Member) -> None:
        """Create the administrator that the options name, if there are no users."""
        wanted = self.options.first_user
        if wanted is not None and self._access is None and first.access.is_empty:
            name, password = wanted
            command = {"createUser": name, "pwd": password, "roles": ["root"]}
            await call(first, command, "admin")
            self.log.info("ACCESS", "Created the first user", "initandlisten", user=f"{name}@admin")

    def _new_member(self, options: ServerOptions, shared: SharedBySet) -> Member:
        return Member(options, shared, wall=self.wall, log=self.log, commands=COMMANDS, stop=self.begin_stop)

    async def _end(self) -> None:
        """End all members at the same time, then close the data."""
        if self._set is not None:
            for member in self._set.members:
                await member.stop_accepting()
            self._set.elections.cancel()
            await asyncio.gather(*(member.end() for member in self._set.members))
        history, self._history = self._history, None
        if history is not None:
            await history.close()
        if self._store is not None:
            turns_of(asyncio.get_running_loop()).forget_writer(self._store.is_writing)
            self._store.close()
            self._store = None
        if self._data is not None:
            self._data.close()
            self._data = None

    async def _watch_history(self) -> None:
        if self._history is not None:
            await self._history.warn_if_lagging()

    # -- its parts, for what runs the server -----------------------------------------------------------------

    @property
    def _shared(self) -> SharedBySet:
        if self._set is None:
            raise CommandError(ErrorCode.InterruptedAtShutdown, "the server was not started")
        return self._set

    @property
    def members(self) -> list[Member]:
        return self._shared.members

    @property
    def first(self) -> Member:
        """The first member, or the standalone server."""
        return self.members[0]

    @property
    def primary(self) -> Member | None:
        """The member that takes writes now, if there is one."""
        return self.first.primary

    @property
    def store(self) -> Store:
        if self._store is None:
            raise CommandError(ErrorCode.InterruptedAtShutdown, "the server is not running")
        return self._store

    @property
    def access(self) -> StoredAccess:
        """Its users and roles."""
        return self._shared.access

    @property
    def head(self) -> HeadLog:
        """The part of the event log that is in memory, on a server that has one."""
        head = self._shared.head
        if head is None:
            raise CommandError(ErrorCode.InterruptedAtShutdown, "the server has no head")
        return head

    @property
    def history(self) -> ServedHistory | None:
        """The history that streams are served from besides the oplog."""
        return self._shared.history

    @property
    def dispatcher(self) -> Dispatcher:
        """Runs commands on the first member, without a socket."""
        return self.first.dispatcher

    @property
    def port(self) -> int:
        """The port that the first member listens on."""
        return self.first.port

    @property
    def address(self) -> str:
        """Host and port of the first member."""
        return self.first.address

    @property
    def uri(self) -> str:
        """The connection string; it names all members of the set."""
        options = {} if self.options.replica_set is None else {"replicaSet": self.options.replica_set}
        return connection_string([member.address for member in self.members], options, self.options.tls)

    # -- for tests -------------------------------------------------------------------------------------------

    def last_write_time(self) -> int:
        """The cluster time of the newest entry that is on disk."""
        return self.store.last_committed

    async def advance_clock(self, seconds: float) -> None:
        """Let time pass at once, and run every background job that would have run meanwhile."""
        self.wall.advance(seconds)
        for member in self.members:
            await member.background.run_all()

    async def truncate_oplog(self, before: int) -> None:
        """Remove the oplog's entries older than a cluster time, as if it had been full."""
        await self.store.write(self.store.truncate_oplog(before))


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
