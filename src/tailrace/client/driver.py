"""What the two shells need of PyMongo beyond its documented interface, and nothing else of it.

PyMongo has no public way to run a command on the server that holds a cursor. Its own cursors use
`_retryable_read` with an address, `Connection.command`, `_ensure_session` and `_close_cursor_soon`; so do we.
These have kept their form from 4.13 to 4.19. Pools, TLS, authentication, sessions, server selection, retried
reads and command monitoring stay PyMongo's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.asynchronous.pool import AsyncConnection
from pymongo.errors import ConnectionFailure, NotPrimaryError, OperationFailure, ProtocolError, PyMongoError
from pymongo.message import _CursorAddress
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import _ServerMode
from pymongo.synchronous.pool import Connection

from tailrace.client.change_stream import ChangeStreamMachine
from tailrace.client.commands import Command
from tailrace.client.options import Document
from tailrace.client.resumable import Failure

Address: TypeAlias = tuple[str, int | None]

_USER_FIELDS: Final = {"cursor": {"firstBatch": 1, "nextBatch": 1}}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a stream's commands inherit from the client, database or collection that is watched."""

    read_preference: _ServerMode
    """also for every resume"""
    read_concern: ReadConcern
    codec_options: CodecOptions[Any]

    @property
    def reply_codec(self) -> CodecOptions[Any]:
        """How replies are decoded.

        Type decoders of the application must not see resume tokens, which go back to the server as they came:
        with such decoders events stay raw until they are handed out.
        """
        if self.decodes_late:
            return self.codec_options.with_options(document_class=RawBSONDocument)
        return self.codec_options

    @property
    def decodes_late(self) -> bool:
        """Whether events have to be decoded when they are handed out."""
        registry = self.codec_options.type_registry
        return bool(registry._decoder_map)

    def decode(self, event: Document) -> Any:
        """An event as the application wants to see it, if it `decodes_late`."""
        assert isinstance(event, RawBSONDocument)
        return bson.decode(event.raw, self.codec_options)


class Exchange:
    """One command on its way: where it went, and over what."""

    def __init__(self, machine: ChangeStreamMachine, settings: Settings) -> None:
        self._machine = machine
        self._settings = settings
        self.wire_version = 0
        """of the connection that was used; 0 if there was none"""
        self.address: Address | None = None
        """of the server that got the command"""

    def prepare(self, connection: Connection | AsyncConnection) -> tuple[Command, dict[str, Any]]:
        """The command for a connection, and how PyMongo is to run it."""
        self.wire_version = connection.max_wire_version
        self.address = connection.address
        command = self._machine.next_command(self.wire_version)
        keywords: dict[str, Any] = {
            "codec_options": self._settings.reply_codec,
            "user_fields": _USER_FIELDS,
        }
        if self._machine.needs_cursor:
            keywords["read_concern"] = self._settings.read_concern
        return command, keywords

    def failure(self, error: BaseException) -> Failure:
        """The error as the rules of resuming see it."""
        return failure_of(error, self.wire_version)


def failure_of(error: BaseException, wire_version: int) -> Failure:
    """What a PyMongo error says about resuming.

    `NotPrimaryError` is PyMongo's network error for a server error; it is judged by its code and labels like
    all that servers answer. Errors that are neither PyMongo's network errors nor a server's (a closed client,
    a reply that cannot be decoded) would come again and again.
    """
    timed_out = isinstance(error, PyMongoError) and error.timeout
    details: Mapping[str, Any] | None = None
    if isinstance(error, OperationFailure):
        details = error.details or {"code": error.code}
    elif isinstance(error, NotPrimaryError) and isinstance(error.details, Mapping):
        details = error.details
    if details is not None:
        return Failure(
            from_server=True,
            code=details.get("code"),
            labels=frozenset(details.get("errorLabels", ())),
            wire_version=wire_version,
            timed_out=timed_out,
        )
    is_network = isinstance(error, (ConnectionFailure, ProtocolError))
    return Failure(from_server=False, wire_version=wire_version, timed_out=timed_out, misuse=not is_network)


def cursor_address(address: Address, command: Command) -> _CursorAddress:
    """Where a `killCursors` goes, as PyMongo's background task wants it."""
    return _CursorAddress(address, f"{command.database}.{command.body[command.name]}")
