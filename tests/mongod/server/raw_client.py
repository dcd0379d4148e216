"""A client that sends and receives single messages."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tailrace.bson.documents import decode, encode
from tailrace.mongod.wire import NEED_DATA, ClientConnection, Reply
from tests.mongod.server.running import Document, RunningServer

TIMEOUT_SECONDS = 30


class RawClient:
    """One socket."""

    def __init__(self, endpoint: socket.socket) -> None:
        self.socket = endpoint
        self._wire = ClientConnection()

    def handshake(self, command: Document) -> Reply:
        """The first message of an old driver."""
        self.socket.sendall(self._wire.send_handshake(encode(command)))
        return self.receive()

    def send(self, command: Document, **options: Any) -> None:
        # The command's name has to be the first field; `$db` follows it.
        self.socket.sendall(
            self._wire.send(encode(command | {"$db": command.get("$db", "admin")}), **options)
        )

    def receive(self) -> Reply:
        """The next message; fails if the server closes the connection."""
        while (reply := self._wire.next_message()) is NEED_DATA:
            data = self.socket.recv(65536)
            assert data, "the server closed the connection"
            self._wire.receive_data(data)
        return reply

    def call(self, command: Document, **options: Any) -> Document:
        self.send(command, **options)
        return decode(self.receive().document)

    def message(self, command: bytes) -> bytes:
        """The message of a command, with its `$db`."""
        return self._wire.send(command)

    def call_raw(self, command: bytes) -> Document:
        """Send a command as it is, with its `$db`."""
        self.socket.sendall(self.message(command))
        return decode(self.receive().document)

    def is_closed(self) -> bool:
        """Whether the server closes the connection without another message."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


@contextmanager
def raw_client(server: RunningServer) -> Iterator[RawClient]:
    with socket.create_connection(server.address, timeout=TIMEOUT_SECONDS) as endpoint:
        yield RawClient(endpoint)
