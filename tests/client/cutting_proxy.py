"""A TCP proxy that cuts a connection at a chosen byte of the reply to a chosen command."""

import asyncio
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_HOST = "127.0.0.1"
_CHUNK = 1 << 16


class _Link:
    """One client's connection: how many bytes of the current reply were forwarded, and how many may be."""

    def __init__(self) -> None:
        self.allowed: int | None = None
        self.passed = 0
        self.size = 0

    def pass_on(self, data: bytes) -> tuple[bytes, bool]:
        """The part of the data to forward, and whether to cut the connection after it."""
        if self.allowed is None:
            return data, False
        if not self.size and len(data) >= 4:
            (self.size,) = struct.unpack_from("<i", data)
        forwarded = data[: self.allowed - self.passed]
        self.passed += len(forwarded)
        if self.passed == self.size:  # the reply ended before the cut
            self.allowed = None
            return forwarded, False
        return forwarded, self.passed == self.allowed


class CuttingProxy:
    """Forwards clients to a server; a context manager with its own thread."""

    def __init__(self) -> None:
        self.port = 0
        self.target_port = 0
        self.cuts = 0
        """number of connections cut"""
        self._command: bytes | None = None
        self._allowed = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, _HOST, 0), self._loop
        ).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def arm(self, command: str, after: int) -> None:
        """Cut the next reply to the command after ``after`` bytes."""
        self._allowed, self._command = after, f"\x00{command}\x00".encode()

    def disarm(self) -> None:
        """Cut nothing."""
        self._command = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, upstream_writer = await asyncio.open_connection(_HOST, self.target_port)
        link = _Link()
        try:
            ways = [
                asyncio.create_task(self._requests(reader, upstream_writer, link)),
                asyncio.create_task(self._replies(upstream, writer, link)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            upstream_writer.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link
    ) -> None:
        while data := await reader.read(_CHUNK):
            # The name of a command is the first field of its document, after the header and the flags.
            if self._command is not None and self._command[1:] in data[:60]:
                link.allowed, link.passed, link.size = self._allowed, 0, 0
                self._command = None
            writer.write(data)
            await writer.drain()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link) -> None:
        while data := await reader.read(_CHUNK):
            forwarded, is_cut = link.pass_on(data)
            writer.write(forwarded)
            with suppress(ConnectionError):
                await writer.drain()
            if is_cut:
                self.cuts += 1
                return
