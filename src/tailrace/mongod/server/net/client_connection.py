"""One client's connection: read requests, run them through the dispatcher, write replies.

The requests of one connection run one after another, in a task that exists only while there is a request to
run; they let others have their turn at their ticks (`turns.py`). Large messages are opened in that task, in
steps and partly in another thread, and wait for memory (`message_budget.py`).

A connection that violates the protocol is closed, with one line in the log, and so is one whose message does
not arrive completely. When a client disconnects, a read that it waits for is cancelled; writes are completed,
and so are unacknowledged writes that have arrived.
"""

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Final, cast

from tailrace.bson.in_pieces import LARGE
from tailrace.errors import WireError
from tailrace.mongod.server.emulation.fail_points import CUT_OFF
from tailrace.mongod.server.net.client import Client
from tailrace.mongod.server.net.message_budget import DECODED
from tailrace.mongod.server.net.subjects import peer_subject
from tailrace.mongod.server.net.turns import paced, turns_of
from tailrace.mongod.wire import NEED_DATA, Connection, Request
from tailrace.mongod.wire.compression import OFFERED
from tailrace.mongod.wire.endpoint import Announced, body_size
from tailrace.mongod.wire.header import OpCode
from tailrace.pacing import tick, ticked

if TYPE_CHECKING:
    from tailrace.mongod.server.net.listener import Listener
    from tailrace.mongod.wire.compression import Compressor

_ENOUGH_BUFFERED: Final = 1 << 20
"""When this many bytes of further requests are buffered, no more is read from the socket."""


def _size_in_memory(message: int, body: int) -> int:
    """What a message takes: its bytes, those of its documents, and the values of a large command."""
    return 2 * message + (DECODED * body if body > LARGE else 0)


class ClientConnection(asyncio.BufferedProtocol):
    def __init__(self, listener: "Listener", number: int) -> None:
        self._listener = listener
        self._buffer = listener.buffer
        self._wire = Connection(OFFERED)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._is_paused = False
        self._is_waiting = False
        """Whether a large message waits for memory."""
        self._counted = 0
        """What the budget counts for the large message that arrives or is served."""
        self._last_data = 0.0
        self.client = Client(number, "", guard=listener.guard)

    # -- the socket ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        listener = self._listener
        self._transport = cast("asyncio.Transport", transport)
        raw_socket = transport.get_extra_info("socket")
        if raw_socket is not None and raw_socket.family in (socket.AF_INET, socket.AF_INET6):
            raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.client.address = f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"
        own = transport.get_extra_info("sockname")
        self.client.server_host = own[0] if own else ""
        self.client.certificate = peer_subject(transport)
        connections = listener.connections
        if listener.fail_points.is_on(CUT_OFF) and self._refused_as_cut_off():
            self._transport.abort()
            return
        if len(connections) >= listener.max_connections:
            listener.counters.connections_rejected += 1
            listener.log.warning(
                "NETWORK", "Connection refused because there are too many open connections",
                remote=self.client.address, connectionCount=len(connections),
            )  # fmt: skip
            self._transport.abort()
            return
        connections[self.client.id] = self
        listener.counters.connections_created += 1
        listener.log.debug(
            "NETWORK", "Connection accepted", "listener",
            remote=self.client.address, connectionId=self.client.id, connectionCount=len(connections),
        )  # fmt: skip

    def _refused_as_cut_off(self) -> bool:
        fail_points = self._listener.fail_points
        is_refused = fail_points.active(CUT_OFF) is not None
        if not fail_points.is_on(CUT_OFF):
            self._listener.on_reachability_change()
        return is_refused

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._listener.counters.network.bytes_in += nbytes
        self._last_data = time.monotonic()
        try:
            self._wire.receive_data(self._buffer[:nbytes])
        except WireError:
            return  # an earlier fault is closing the connection
        if self._task is None:
            self._begin()
        elif self._wire.buffered > _ENOUGH_BUFFERED:
            self._pause()

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._transport.pause_reading()
            self._is_paused = True

    def _resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._transport.resume_reading()
            self._is_paused = False
            self._last_data = time.monotonic()

    def is_stalled(self, oldest: float) -> bool:
        """Whether a part of a message has arrived, and nothing more since a time."""
        is_partial = self._wire.buffered > 0 and self._task is None and not self._is_paused
        return is_partial and self._last_data < oldest

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def connection_lost(self, _error: Exception | None) -> None:
        listener = self._listener
        self._transport = None
        self.resume_writing()
        if listener.connections.pop(self.client.id, None) is not None:
            listener.log.debug(
                "NETWORK", "Connection ended", self.client.name,
                remote=self.client.address, connectionCount=len(listener.connections),
            )  # fmt: skip
        if self._is_waiting:
            self._is_waiting = False
            if listener.budget.give_up(self):
                self._counted = 0
        if self._task is None:
            self._uncount()
        self.client.is_gone = True
        operation = self.client.operation
        if self._task is None or operation is None:
            return
        if operation.is_for_reply_only:
            self._task.cancel()
        else:
            operation.client_gone()

    def shut(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def wait_idle(self) -> None:
        """Wait until no command runs for this client."""
        while self._task is not None:
            await asyncio.wait([self._task])

    # -- requests -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        request = self._next()
        if request is not None:
            self._task = asyncio.get_running_loop().create_task(paced(self._serve, request))

    def _next(self) -> Request | Announced | None:
        """The next request to run, or a large message to open; None if there is none to run now."""
        while True:
            try:
                large = self._wire.large_message()
                if large is not None:
                    return large if self._is_ready(large) else None
                request = self._wire.next_message()
            except WireError as fault:
                self._violated(fault)
                return None
            if request is NEED_DATA:
                self._resume()
                return None
            self._listener.counters.network.requests += 1
            if self._transport is not None or not request.expects_reply:
                return request

    def _violated(self, fault: WireError) -> None:
        if self._transport is not None:
            self._listener.log.warning(
                "NETWORK", "Connection closed because it violated the protocol", self.client.name,
                remote=self.client.address, error=str(fault),
            )  # fmt: skip
        self.shut()

    # -- large messages ---------------------------------------------------------------------------------

    def _is_ready(self, large: Announced) -> bool:
        """Whether a large message is complete and may be opened; reads more, or waits for memory."""
        if self._is_waiting or (self._transport is None and not large.is_complete):
            return False
        if not self._counted:
            size = _size_in_memory(large.unpacked, large.body)
            if not self._listener.budget.admit(self, size, self._admitted):
                self._is_waiting = True
                self._counted = size
                self._pause()
                return False
            self._counted = size
        if large.is_complete:
            return True
        self._resume()
        return False

    def _admitted(self) -> None:
        if not self._is_waiting:
            # The client has gone since.
            self._uncount()
            return
        self._is_waiting = False
        if self._task is None:
            self._begin()

    def _uncount(self) -> None:
        size, self._counted = self._counted, 0
        if size:
            self._listener.budget.release(size)

    async def _opened(self) -> Request | None:
        """The request in a large message; None if the connection is closed."""
        try:
            # Several large messages may be complete at the same time.
            turns_of(asyncio.get_running_loop()).give_way()
            header, payload = self._wire.take_frame()
            tick()  # if another message came after it, it was copied
            compressor: Compressor | None = None
            if header.op_code is OpCode.OP_COMPRESSED:
                opened = await asyncio.to_thread(self._wire.decompressed, header, payload)
                header, payload, compressor = opened
                del opened
            body = body_size(payload, len(payload)) if header.op_code is OpCode.OP_MSG else 0
            self._recount(_size_in_memory(len(payload), body))
            steps = self._wire.read(header, payload, compressor)
            del payload
            request = ticked(steps)
        except WireError as fault:
            self._wire.fail(fault)
            self._violated(fault)
            return None
        self._listener.counters.network.requests += 1
        return request if self._transport is not None or not request.expects_reply else None

    def _recount(self, size: int) -> None:
        before, self._counted = self._counted, size
        self._listener.budget.release(before - size)

    async def _serve(self, first: Request | Announced) -> None:
        found: Request | Announced | None = first
        try:
            while found is not None:
                request = await self._opened() if isinstance(found, Announced) else found
                if request is not None:
                    await self._answer(request)
                del request
                self._uncount()
                tick()  # a client may send thousands of small requests at once
                found = self._next()
            self._task = None
        except asyncio.CancelledError:
            # The client has disconnected; requests without a reply may be left in the buffer.
            self._task = None
            self._uncount()
            self._begin()
        except Exception as error:
            self._task = None
            self._uncount()
            self._listener.log.error(
                "NETWORK", "A connection failed because of a fault of the server", self.client.name,
                error=f"{type(error).__name__}: {error}",
            )  # fmt: skip
            self.shut()

    async def _answer(self, request: Request) -> None:
        if request.error is not None:
            self._send(self._wire.refuse(request, self._listener.dispatcher.tail()))
            await self._sent()
            return
        current: Request | None = request
        while current is not None:
            outcome = await self._listener.dispatcher.run(self.client, current)
            if outcome.close:
                self.shut()
                return
            current = outcome.next_request if self._transport is not None else None
            if request.expects_reply:
                if len(outcome.reply) > LARGE:
                    tick()  # each copy of a large reply takes some milliseconds
                data = self._wire.send(request, outcome.reply, more_to_come=current is not None)
                # While a slow client reads, only the transport holds its reply.
                del outcome
                if len(data) > LARGE:
                    tick()
                self._send(data)
                del data
                await self._sent()

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._listener.counters.network.bytes_out += len(data)
            self._transport.write(data)

    async def _sent(self) -> None:
        if self._writable is not None:
            await self._writable
