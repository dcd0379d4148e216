"""Run commands through PyMongo, and read its errors.

PyMongo has no public way to run a command on the server that holds a cursor. Its own cursors use
`_retryable_read` with an address, `Connection.command`, `_ensure_session` and `_close_cursor_soon`; so does
this package. Their signatures did not change from 4.13 to 4.19. Pools, TLS, authentication, sessions, server
selection, retried reads and command monitoring are left to PyMongo.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient, MongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.pool import AsyncConnection
from pymongo.client_session import ClientSession
from pymongo.errors import ConnectionFailure, NotPrimaryError, OperationFailure, ProtocolError, PyMongoError
from pymongo.message import _CursorAddress
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import _ServerMode
from pymongo.synchronous.pool import Connection

from tailrace.client.change_stream import ChangeStreamMachine
from tailrace.client.commands import Command
from tailrace.client.flow import Call
from tailrace.client.options import Document, Target
from tailrace.client.resumable import RESUMABLE_LABEL, CommandFailure

T = TypeVar("T", bound=Mapping[str, Any])

Address: TypeAlias = tuple[str, int | None]
AnyClient: TypeAlias = MongoClient[T] | AsyncMongoClient[T]
AnySession: TypeAlias = ClientSession | AsyncClientSession
AnyConnection: TypeAlias = Connection | AsyncConnection
Prepare: TypeAlias = Callable[[AnyConnection, _ServerMode], tuple[Command, dict[str, Any]]]
"""The command for a connection, and the arguments of `Connection.command` to run it with."""

_USER_FIELDS: Final = {"cursor": {"firstBatch": 1, "nextBatch": 1}}


def client_and_target(
    watched: Any, client: type[Any], database: type[Any], collection: type[Any], kinds: str
) -> tuple[Any, Target]:
    """The client of an object to watch, and the stream's target; the types are PyMongo's, sync or async."""
    if isinstance(watched, client):
        return watched, Target.cluster()
    if isinstance(watched, database):
        return watched.client, Target(watched.name)
    if isinstance(watched, collection):
        return watched.database.client, Target(watched.database.name, watched.name)
    raise TypeError(f"{kinds} can be watched, not {watched!r}")


def read_call(
    client: AnyClient[Any],
    read_preference: _ServerMode,
    session: Any,
    prepare: Prepare,
    *,
    operation: str,
    address: Address | None,
    retryable: bool,
) -> Call:
    """The call that runs a command and returns its reply, for an async client an awaitable of the reply.

    The command runs on the server at ``address``, or on one that the read preference selects.
    """

    def send(session: Any, _server: object, connection: AnyConnection, preference: _ServerMode) -> Any:
        command, keywords = prepare(connection, preference)
        return connection.command(command.database, command.body, session=session, client=client, **keywords)  # type: ignore[arg-type]

    return partial(
        client._retryable_read,
        send,
        read_preference,
        session,
        operation=operation,
        address=address,
        retryable=retryable,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """What the commands of a stream inherit from the client, database or collection that is watched."""

    read_preference: _ServerMode
    """also for every resume"""
    read_concern: ReadConcern
    codec_options: CodecOptions[Any]

    @property
    def reply_codec(self) -> CodecOptions[Any]:
        """How replies are decoded.

        Type decoders of the application must not change resume tokens, which are sent back to the server. If
        there are any, events stay raw until they are returned.
        """
        if self.decodes_late:
            return self.codec_options.with_options(document_class=RawBSONDocument)
        return self.codec_options

    @property
    def decodes_late(self) -> bool:
        """Whether events are decoded only when they are returned."""
        registry = self.codec_options.type_registry
        return bool(registry._decoder_map)

    def decode(self, event: Document) -> Any:
        """Decode an event of a stream that `decodes_late`, with the application's codec options."""
        assert isinstance(event, RawBSONDocument)
        return bson.decode(event.raw, self.codec_options)


class Exchange:
    """One command in flight: which server got it, and over which kind of connection."""

    def __init__(self, machine: ChangeStreamMachine, settings: Settings) -> None:
        self._machine = machine
        self._settings = settings
        self.wire_version = 0
        """of the connection that was used; 0 before there is one"""
        self.address: Address | None = None
        """of the server that got the command"""

    def prepare(self, connection: AnyConnection, preference: _ServerMode) -> tuple[Command, dict[str, Any]]:
        """The command for a connection, and the arguments of `Connection.command` to run it with."""
        self.wire_version = connection.max_wire_version
        self.address = connection.address
        command = self._machine.next_command(self.wire_version)
        keywords: dict[str, Any] = {
            "read_preference": preference,
            "codec_options": self._settings.reply_codec,
            "user_fields": _USER_FIELDS,
        }
        if self._machine.needs_cursor:
            keywords["read_concern"] = self._settings.read_concern
        return command, keywords


def failure_of(error: BaseException, wire_version: int) -> CommandFailure:
    """Reduce a PyMongo error to what decides about resuming.

    PyMongo raises `NotPrimaryError`, a network error, for an error reply; code and labels decide about it as
    about every error reply. An error that is neither a network error nor an error reply (a closed client, a
    reply that cannot be decoded) is misuse: a retry would fail in the same way.
    """
    timed_out = isinstance(error, PyMongoError) and error.timeout
    details: Mapping[str, Any] | None = None
    if isinstance(error, OperationFailure):
        details = error.details or {"code": error.code}
    elif isinstance(error, NotPrimaryError) and isinstance(error.details, Mapping):
        details = error.details
    if details is not None:
        return CommandFailure(
            from_server=True,
            code=details.get("code"),
            labels=frozenset(details.get("errorLabels", ())),
            wire_version=wire_version,
            timed_out=timed_out,
        )
    is_network = isinstance(error, (ConnectionFailure, ProtocolError))
    return CommandFailure(
        from_server=False, wire_version=wire_version, timed_out=timed_out, misuse=not is_network
    )


def may_pass(error: PyMongoError) -> bool:
    """Whether the same command may succeed later: no server answered, or members are changing their roles."""
    if isinstance(error, OperationFailure):
        return error.has_error_label(RESUMABLE_LABEL)
    return isinstance(error, ConnectionFailure)  # also NotPrimaryError


def cursor_address(address: Address, command: Command) -> _CursorAddress:
    """The address of a `killCursors` command, in the form that PyMongo's background task takes."""
    return _CursorAddress(address, f"{command.database}.{command.body[command.name]}")
