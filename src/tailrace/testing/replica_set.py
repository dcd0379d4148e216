"""A replica set inside a test: real sockets, a real store, and ways to inject faults.

It starts within milliseconds, so a test can have its own.

>>> with ReplicaSet() as replica_set:
...     with replica_set.client().shop.orders.watch() as stream:
...         inserted = replica_set.client().shop.orders.insert_one({"item": "teapot"})
...         next(stream)["fullDocument"]["item"]
'teapot'
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO, Unpack

import bson
from bson import Timestamp
from pymongo import MongoClient

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.emulation.fail_points import CUT_OFF, FAIL_COMMAND, FailPoint
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.server import Server
from tailrace.testing.in_thread import Document, InThread, Mode, Options

if TYPE_CHECKING:
    from tailrace.testing.history_builder import HistoryBuilder


class ReplicaSet(InThread[Server]):
    """A replica set, by default of one member, for a `with` block or from `start` to `stop`.

    A restart keeps the ports, so clients reconnect.
    """

    name = "replica set"

    def __init__(
        self, *, log: TextIO | None = None, builds_history: bool = False, **options: Unpack[Options]
    ) -> None:
        """``log`` gets a copy of the server's log. Without ``data`` the data is removed at the end.

        With ``builds_history`` the history is built in this process while the set runs, without Spark.
        """
        options.setdefault("port", 0)
        super().__init__(ServerOptions(**options), log)
        self._builds_history = builds_history
        self._builder: HistoryBuilder | None = None

    # -- life -----------------------------------------------------------------------------------------------

    def _new(self) -> Server:
        return Server(self.options, wall=self.wall, log=self._log)

    def _start_serving(self) -> None:
        super()._start_serving()
        others = tuple(member.port for member in self.server.members[1:])
        self.options = replace(self.options, port=self.server.port, member_ports=others)
        if self._builds_history:
            self._builder = self._new_builder().start()

    def _new_builder(self) -> "HistoryBuilder":
        from tailrace.testing.history_builder import (
            HistoryBuilder,
        )  # needs packages that may not be installed

        if self.options.history is None:
            raise RuntimeError("builds_history needs a folder; pass history=DIR")
        return HistoryBuilder(self.server.store, self.options.history, kept=self.options.kept)

    def _stop_serving(self) -> None:
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.stop()
        super()._stop_serving()

    # -- access ---------------------------------------------------------------------------------------------

    @property
    def server(self) -> Server:
        """The server; use it only in its event loop, see `call`."""
        return self._running

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first member."""
        return self.options.host, self.server.port

    @property
    def members(self) -> list[str]:
        """The addresses of all members, `host:port`."""
        return [member.address for member in self.server.members]

    @property
    def primary(self) -> str | None:
        """The address of the member that accepts writes; None while there is none."""
        primary = self.server.primary
        return None if primary is None else primary.address

    def client(self, **options: Any) -> "MongoClient[Document]":
        """Return a new PyMongo client with these options; it is closed with the set."""
        return self._client(self.uri, options)

    def oplog(self) -> list[Document]:
        """Every oplog entry, oldest first, as a driver reads it from `local.oplog.rs`."""
        return [bson.decode(entry) for entry in self.call(self._entries(self.server))]

    @property
    def cluster_time(self) -> Timestamp:
        """The time of the newest write."""
        return to_timestamp(self.server.last_write_time())

    def catch_up(self) -> None:
        """Build the history up to the newest write, and let streams read it."""
        history = self.server.history
        if self._builder is None or history is None:
            raise RuntimeError("this replica set builds no history")
        self._builder.build()
        self.call(history.look())

    # -- faults ---------------------------------------------------------------------------------------------

    def advance_clock(self, seconds: float) -> None:
        """Move the clock, back if negative; what became due is done when this returns.

        Unused cursors and sessions expire, and so do pre-images; the next write has the new time.
        """
        self.call(self.server.advance_clock(seconds))

    def truncate_oplog(self, before: Timestamp | None = None) -> None:
        """Remove oplog entries older than a time, by default all but the newest entry.

        A stream that has not read them cannot be resumed (286, ChangeStreamHistoryLost), unless there is a
        history. Entries that the history does not have yet are not removed.
        """
        time = self.server.last_write_time() if before is None else before.time << 32 | before.inc
        self.call(self.server.truncate_oplog(time))

    def step_down(self, seconds: float = 60) -> None:
        """Make the primary step down; it can be elected again after ``seconds``, or by `step_up`.

        Another member is elected at once, if there is one.
        """
        self.call((self.server.primary or self.server.first).step_down(seconds))

    def step_up(self, member: int = 0) -> None:
        """Elect a member as primary, in a new term."""
        self.call(self.server.members[member].step_up())

    @contextmanager
    def cut_off(self, member: int) -> Iterator[None]:
        """Make a member unreachable for clients and the other members during a block."""
        with self.fail_point(CUT_OFF, data={"member": member}):
            yield

    @contextmanager
    def fail_point(
        self,
        name: str = FAIL_COMMAND,
        mode: Mode = "alwaysOn",
        data: Mapping[str, Any] | None = None,
        *,
        member: int = 0,
    ) -> Iterator[FailPoint]:
        """Switch on a fail point of one member during a block; yield it, with its `times_entered`."""
        with self._fail_point(self.server.members[member], name, mode, data) as point:
            yield point

    def settle(self) -> None:
        """Clean a shared set between two tests: switch off fail points, abort open transactions."""
        self.call(self._settle())

    async def _settle(self) -> None:
        over = CommandError(ErrorCode.Interrupted, "the test that began this transaction is over")
        for member in self.server.members:
            member.fail_points.disable_all()
            member.transactions.abort_all(over)
        for prepared in self.server.store.prepared:
            await prepared.abort()
