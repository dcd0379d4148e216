"""Answer HTTP in a thread of its own.

The thread has an event loop of its own, and speaks with the deployment over the wire, as any client does. So
the page has the rights, the limits and the errors of a client, and no command waits for a page.

The port is bound at once. The packages that answer are imported when the first client connects, or some
seconds later: a server that runs for a moment, as in a test, does not pay for a page that nobody opens.
"""

import asyncio
import logging
import selectors
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Final

from tailrace.errors import UsageError
from tailrace.web.subject import OnFault, Subject

if TYPE_CHECKING:
    import uvicorn

    from tailrace.web.watcher import Watcher

DEFAULT_PORT: Final = 27080
_BACKLOG: Final = 64
_IDLE_SECONDS: Final = 5.0
"""After which the page begins to collect what it shows, without a visitor."""
_SECONDS_TO_END: Final = 2


class HttpThread:
    """The HTTP server of a process; `start` returns at once, `stop` waits for its end."""

    def __init__(self, host: str, port: int, *, is_default: bool = False) -> None:
        """Bind the address; raises `UsageError` if that is not possible.

        With ``is_default`` nobody asked for this port: if it is taken, it is any free one.
        """
        try:
            self._socket = _bound(host, port)
        except OSError as error:
            if not is_default:
                raise UsageError(
                    f"the page cannot be served on {host}:{port}: {error.strerror}; "
                    "name another address with --http HOST:PORT, or leave the page out with --http off"
                ) from None
            self._socket = _bound(host, 0)
        self.host = host
        self._ended, self._end = socket.socketpair()
        self._thread: threading.Thread | None = None
        self._server: uvicorn.Server | None = None
        self._tls: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    @property
    def address(self) -> str:
        """The URL of the page."""
        host = "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"{'http' if self._tls is None else 'https'}://{shown}:{self.port}/"

    def start(self, subject: Subject, on_fault: OnFault, *, tls: ssl.SSLContext | None = None) -> None:
        """Begin to answer; with ``tls`` only by HTTPS."""
        self._tls = tls
        self._thread = threading.Thread(
            target=self._run, args=(subject, on_fault), name="tailrace-http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End all connections, and close the port; a second call does nothing."""
        self._end.close()
        if self._thread is not None:
            self._thread.join()
        self._ended.close()
        self._socket.close()

    def _run(self, subject: Subject, on_fault: OnFault) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._ended, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(_IDLE_SECONDS)]
        if self._ended in ready:
            return
        try:
            asyncio.run(self._serve(subject, on_fault))
        except Exception as error:
            on_fault(error)

    async def _serve(self, subject: Subject, on_fault: OnFault) -> None:
        import uvicorn  # not at the start of every server

        from tailrace.web.app import new_app
        from tailrace.web.visitors import Visitors
        from tailrace.web.watcher import Watcher

        visitors = Visitors(subject)
        watcher = Watcher(subject, on_fault)
        _silence(uvicorn.__name__)  # it would write to standard error what `on_fault` logs
        config = uvicorn.Config(
            new_app(subject, watcher, visitors, on_fault, is_local=_is_loopback(self.host)),
            http="h11",
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_SECONDS_TO_END,
        )
        config.load()
        config.ssl = self._tls
        self._server = uvicorn.Server(config)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._ended, self._stop_soon, watcher)
        watching = loop.create_task(watcher.run())
        try:
            await self._server.serve([self._socket])
        finally:
            loop.remove_reader(self._ended)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await watcher.close()
            await visitors.close()

    def _stop_soon(self, watcher: "Watcher") -> None:
        asyncio.get_running_loop().remove_reader(self._ended)
        watcher.ended.set()
        if self._server is not None:
            self._server.should_exit = True


def _silence(name: str) -> None:
    log = logging.getLogger(name)
    log.addHandler(logging.NullHandler())
    log.propagate = False


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise OSError(error.errno, error.strerror) from None
    found = socket.socket(family, kind)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
