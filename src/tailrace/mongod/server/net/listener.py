"""Listen on sockets, and keep track of the connections."""

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.errors import PortError, UsageError
from tailrace.mongod.server.admin.counters import Counters
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.emulation.fail_points import FailPoints
from tailrace.mongod.server.net.client_connection import ClientConnection
from tailrace.mongod.server.net.door import SECONDS_TO_PART, Door
from tailrace.mongod.server.net.message_budget import DEFAULT_BYTES, MessageBudget
from tailrace.mongod.server.net.tls import Tls

if TYPE_CHECKING:
    from tailrace.mongod.server.access.stored import StoredAccess
    from tailrace.mongod.server.dispatch.dispatcher import Dispatcher

_BACKLOG: Final = 1024
_ACCEPTED_AT_ONCE: Final = 1
"""asyncio accepts this many connections at once, also after an error: without file descriptors it would
report an error for each. After the last error it waits for a second."""
_BUFFER_BYTES: Final = 256 * 1024


class Listener:
    def __init__(
        self,
        dispatcher: "Dispatcher",
        fail_points: FailPoints,
        counters: Counters,
        log: Logbook,
        *,
        max_connections: int,
        message_bytes: int = DEFAULT_BYTES,
        stalled_seconds: float = 60.0,
        tls: Tls | None = None,
    ) -> None:
        """``message_bytes`` is for all large messages together.

        After ``stalled_seconds`` without a byte, a connection with a part of a message is closed.
        """
        self.dispatcher = dispatcher
        self.fail_points = fail_points
        self.counters = counters
        self.log = log
        self.max_connections = max_connections
        self.tls = tls
        """The certificates, if clients may use TLS."""
        self.guard: StoredAccess | None = None
        """Who may do what, if access is controlled."""
        self.on_reachability_change: Callable[[], None] = lambda: None
        """Called when a node that was cut off has refused its last connection."""
        self._servers: asyncio.Server | None = None
        self._door: Door | None = None
        self._ids = itertools.count(1)
        self.connections: dict[int, ClientConnection] = {}
        self.port = 0
        self.budget = MessageBudget(message_bytes)
        self._stalled_seconds = stalled_seconds
        self._sweep: asyncio.TimerHandle | None = None
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))
        """Receives arriving bytes. The loop calls `buffer_updated` immediately after filling it, so all
        connections share it. It is not global, because another server may run in another thread."""

    async def start(self, host: str, port: int) -> None:
        """Listen; raises `PortError` or `UsageError` if that is not possible."""
        loop = asyncio.get_running_loop()
        try:
            self._servers = await loop.create_server(
                self._accept, host, port, backlog=_ACCEPTED_AT_ONCE, start_serving=self.tls is None
            )
            for listening in self._servers.sockets:
                with listening.dup() as same:
                    same.listen(_BACKLOG)
        except OSError as error:
            # asyncio adds its own text to the system's message; a name that does not resolve has no errno.
            reason = (
                os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
            )
            raise PortError(
                f"cannot listen on {host}:{port}: {reason}; choose another port or host, or end what uses it"
            ) from None
        except OverflowError:
            raise UsageError(f"{port} is not a port; give a number from 0 to 65535") from None
        self.port = self._servers.sockets[0].getsockname()[1]
        if self.tls is not None:
            self._door = Door(self.tls, self.log, self._accept, self._room)
            self._door.open(self._servers.sockets)
        self._watch_stalled()

    def _room(self) -> int:
        """The number of further connections."""
        return self.max_connections - len(self.connections)

    def _watch_stalled(self) -> None:
        """Look for half-sent messages from time to time."""
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(self._stalled_seconds / 4, self._close_stalled)

    def _close_stalled(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._stalled_seconds
        for connection in list(self.connections.values()):
            if connection.is_stalled(oldest):
                self.log.warning(
                    "NETWORK", "Connection closed because a message did not arrive completely",
                    connection.client.name, remote=connection.client.address,
                )  # fmt: skip
                connection.abort()
        self._watch_stalled()

    def _accept(self) -> "ClientConnection":
        return ClientConnection(self, next(self._ids))

    def drop_connections(self) -> None:
        """Close all connections after the replies written so far are sent."""
        for connection in list(self.connections.values()):
            connection.shut()

    async def stop_accepting(self) -> None:
        """Accept no new connections; those accepted already become part of `connections`."""
        servers = self._servers
        if self._sweep is not None:
            self._sweep.cancel()
        if servers is None:
            return
        loop = asyncio.get_running_loop()
        for listening in servers.sockets:
            loop.remove_reader(listening)
        # asyncio loses connections that it has just accepted if the server closes before they are set up.
        await asyncio.sleep(0)
        servers.close()
        if self._door is not None:
            await self._door.close()

    async def close(self) -> None:
        """Close all connections and wait until their running commands have ended."""
        await self.stop_accepting()
        connections = list(self.connections.values())
        for connection in connections:
            connection.shut()
        await asyncio.gather(*(connection.wait_idle() for connection in connections))
        if self._door is not None:
            await self._part()
        if self._servers is not None:
            await self._servers.wait_closed()

    async def _part(self) -> None:
        """Wait until clients that use TLS have confirmed the end, or should have."""
        deadline = time.monotonic() + 2 * SECONDS_TO_PART
        while self.connections and time.monotonic() < deadline:
            await asyncio.sleep(SECONDS_TO_PART / 50)
