"""A connection to the source for the log-in of one client, whose messages are passed on unchanged.

The source checks them. Nothing that is passed on can be used to log in again: a proof is good for one
exchange.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final, Self

from pymongo.uri_parser import parse_uri

from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, WireError
from tailrace.mongod.wire import NEED_DATA, ClientConnection

_SECONDS: Final = 10.0
_READ: Final = 1 << 16


class Relay:
    """Raises `CommandError` HostUnreachable (6) if the source does not answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = ClientConnection()

    @classmethod
    async def open(cls, host: str, port: int, uri: str) -> Self:
        """Connect to a server of the source; ``uri`` says whether and how TLS is used."""
        try:
            async with asyncio.timeout(_SECONDS):
                return cls(*await asyncio.open_connection(host, port, ssl=tls_of(uri)))
        except (OSError, TimeoutError) as error:
            raise _away(error) from None

    async def call(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Send a command, and return the reply, which may be an error."""
        try:
            async with asyncio.timeout(_SECONDS):
                self._writer.write(self._wire.send(encode(command)))
                await self._writer.drain()
                while True:
                    reply = self._wire.next_message()
                    if reply is not NEED_DATA:
                        return decode(reply.document)
                    data = await self._reader.read(_READ)
                    if not data:
                        raise ConnectionError("the source has closed the connection")
                    self._wire.receive_data(data)
        except (OSError, TimeoutError, WireError) as error:
            raise _away(error) from None

    def close(self) -> None:
        self._writer.close()


def tls_of(uri: str) -> ssl.SSLContext | None:
    """How a connection string wants its connections to be secured; None if it does not."""
    options = parse_uri(uri, warn=False)["options"]
    if not options.get("tls", uri.startswith("mongodb+srv://")):
        return None
    found = ssl.create_default_context(cafile=options.get("tlsCAFile"))
    is_insecure = bool(options.get("tlsInsecure"))
    if is_insecure or options.get("tlsAllowInvalidCertificates") or options.get("tlsAllowInvalidHostnames"):
        found.check_hostname = False
    if is_insecure or options.get("tlsAllowInvalidCertificates"):
        found.verify_mode = ssl.CERT_NONE
    certificate = options.get("tlsCertificateKeyFile")
    if certificate is not None:
        found.load_cert_chain(certificate, password=options.get("tlsCertificateKeyFilePassword"))
    return found


def _away(error: BaseException) -> CommandError:
    reason = (
        f"the source cannot be asked to check a log-in: {str(error) or type(error).__name__}; try again later"
    )
    return CommandError(ErrorCode.HostUnreachable, reason)
