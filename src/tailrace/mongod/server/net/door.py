"""Accept connections on a port where clients may use TLS.

The first byte shows whether a client does: no message of the wire protocol that a driver sends begins with
the byte of a TLS handshake. A handshake that fails or stalls is one line in the log.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.net.tls import Tls

_HANDSHAKE: Final = b"\x16"
SECONDS_TO_PART: Final = 0.5
"""For how long a closed connection waits for the client to confirm the end."""
_PAUSE: Final = 1.0
"""After an error of `accept`, such as no free file descriptors; asyncio waits as long."""


class Door:
    """Accepts the connections of some listening sockets, until it is closed."""

    def __init__(
        self, tls: Tls, log: Logbook, connection: Callable[[], asyncio.BaseProtocol], room: Callable[[], int]
    ) -> None:
        """``connection`` makes the protocol of a client; ``room`` is the number of clients that may come."""
        self._tls = tls
        self._log = log
        self._connection = connection
        self._room = room
        self._listening: list[socket.socket] = []
        self._arriving: dict[socket.socket, asyncio.TimerHandle] = {}
        """Clients that have not sent a byte."""
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, listening: Sequence[Any]) -> None:
        """``listening`` are the sockets of an `asyncio.Server` that does not serve."""
        for each in listening:
            own = each.dup()
            own.setblocking(False)
            self._listening.append(own)
            self._watch(own)

    def _watch(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def close(self) -> None:
        """Accept no more clients, and end those that have not come in."""
        loop = asyncio.get_running_loop()
        listening, self._listening = self._listening, []
        for each in listening:
            loop.remove_reader(each)
            each.close()
        for arrived in list(self._arriving):
            self._forget(arrived)
            arrived.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- one client -----------------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            arrived, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            loop.remove_reader(listening)
            loop.call_later(_PAUSE, self._watch, listening)
            loop.call_exception_handler({"message": "a connection cannot be accepted", "exception": error})
            return
        arrived.setblocking(False)
        if self._room() <= len(self._arriving) + len(self._tasks):
            self._log.warning(
                "NETWORK", "Connection refused because there are too many open connections",
                remote=_name_of(arrived),
            )  # fmt: skip
            arrived.close()
            return
        seconds = self._tls.settings.handshake_seconds
        self._arriving[arrived] = loop.call_later(seconds, self._give_up, arrived)
        loop.add_reader(arrived, self._look, arrived)

    def _look(self, arrived: socket.socket) -> None:
        """Decide by the first byte."""
        self._forget(arrived)
        try:
            first = arrived.recv(1, socket.MSG_PEEK)
        except OSError:
            first = b""
        if not first:
            arrived.close()
        elif first != _HANDSHAKE and self._tls.is_required:
            self._refuse(arrived, "this server requires TLS, and the client does not use it")
        else:
            context = self._tls.context if first == _HANDSHAKE else None
            task = asyncio.get_running_loop().create_task(self._let_in(arrived, context))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _let_in(self, arrived: socket.socket, context: ssl.SSLContext | None) -> None:
        limits: dict[str, Any] = {}
        if context is not None:
            limits = {
                "ssl_handshake_timeout": self._tls.settings.handshake_seconds,
                "ssl_shutdown_timeout": SECONDS_TO_PART,
            }
        remote = _name_of(arrived)
        try:
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(self._connection, arrived, ssl=context, **limits)
        except ssl.SSLCertVerificationError as error:
            self._note(remote, f"the client's certificate is refused: {error.verify_message}")
        except OSError as error:
            self._note(remote, str(getattr(error, "reason", None) or error))

    def _give_up(self, arrived: socket.socket) -> None:
        self._forget(arrived)
        self._refuse(arrived, "the client sent nothing")

    def _forget(self, arrived: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(arrived)
        timer = self._arriving.pop(arrived, None)
        if timer is not None:
            timer.cancel()

    def _refuse(self, arrived: socket.socket, reason: str) -> None:
        self._note(_name_of(arrived), reason)
        arrived.close()

    def _note(self, remote: str, reason: str) -> None:
        self._log.info("NETWORK", "Connection ended in the TLS handshake", remote=remote, error=reason)


def _name_of(arrived: socket.socket) -> str:
    with suppress(OSError):
        host, port = arrived.getpeername()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return "unknown"
