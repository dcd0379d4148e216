"""A client's command, from an OP_MSG or an OP_QUERY.

Both messages contain a command for a database, in different places. A `Request` is that command in the form
of OP_MSG, so that there is one form to run. It also has the form of the reply: opcode, checksum, compressor.

A reader in `READERS` takes header and payload, and the compressor of the message, and reads in steps if the
message is large. It raises `WireError` if
the connection must be closed. If the server replies with an error instead, the request is returned with that
`error`, and later messages of the connection are unaffected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.bson import raw
from tailrace.bson.in_pieces import LARGE, Steps
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.wire import op_msg, op_query
from tailrace.mongod.wire.compression import Compressor
from tailrace.mongod.wire.header import Header, OpCode
from tailrace.mongod.wire.large_document import large_document
from tailrace.mongod.wire.payload_document import check_document

LEGACY_COMMANDS: Final = frozenset(
    {
        "hello", "isMaster", "ismaster", "buildInfo", "buildinfo",
        "saslStart", "saslContinue", "authenticate", "_isSelf",
    }
)  # fmt: skip
"""Commands that a server still accepts by OP_QUERY: those that old drivers send before they use OP_MSG."""

_REMOVED_OPCODE: Final = 5739101
_DATABASE_ELEMENT: Final = b"\x02$db\0"


@dataclass(slots=True)
class Request:
    """A command; or an empty command and the ``error`` to reply with.

    Treat it as immutable; it is not frozen because construction would take twice as long.
    """

    request_id: int
    op_code: OpCode
    database: str = ""
    command: bytes = raw.EMPTY
    """The received body, `$db` included; documents outside the body are in ``sequences``."""
    sequences: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    flags: int = 0
    compressor: Compressor | None = None
    error: CommandError | None = None
    decoded: dict[str, Any] | None = None
    """The decoded command, if it was decoded; see `check_document` for its limits."""
    is_exact: bool = False
    """Whether ``decoded`` is known to be exact."""
    is_repetition: bool = False
    """Whether this reply follows another one to the same request."""

    @property
    def name(self) -> str:
        """The command's name: its first field."""
        return (raw.first_name(self.command) or b"").decode()

    @property
    def expects_reply(self) -> bool:
        """Whether the client waits for a reply; not for unacknowledged writes."""
        return not self.flags & op_msg.MORE_TO_COME

    @property
    def exhaust_allowed(self) -> bool:
        """Whether the client accepts several replies, each but the last with moreToCome."""
        return bool(self.flags & op_msg.EXHAUST_ALLOWED)

    def merged_command(self) -> bytes:
        """The command with its sequences as array fields."""
        return op_msg.OpMsg(self.command, self.sequences).merged()


def read_op_msg(header: Header, payload: bytes | memoryview, compressor: Compressor | None) -> Steps[Request]:
    flags = op_msg.read_flags(header, payload)
    try:
        message = yield from op_msg.read_sections(payload, flags)
        database = _database(message)
    except CommandError as error:
        return Request(header.request_id, header.op_code, flags=flags, compressor=compressor, error=error)
    return Request(
        header.request_id,
        header.op_code,
        database,
        message.body,
        message.sequences,
        flags,
        compressor,
        None,
        message.decoded,
        message.is_exact,
    )


def _database(message: op_msg.OpMsg) -> str:
    body = message.body
    if message.decoded is not None and _DATABASE_ELEMENT in body:
        decoded = message.decoded.get("$db")
        if is_string(decoded):
            return decoded
    found = raw.find(body, b"$db")
    if found is None:
        raise CommandError(40571, "an OP_MSG request needs a $db field")
    kind, _, start, end = found
    if kind != raw.STRING:
        raise CommandError(13111, "the field $db must be a string")
    return raw.string_value(body, start, end)


def _read_op_query(header: Header, payload: bytes, compressor: Compressor | None) -> Steps[Request]:
    query = op_query.decode(payload)
    try:
        if len(query.query) > LARGE:
            yield from large_document(query.query, keep=False)
        database, command = _command_of(query)
    except CommandError as error:
        return Request(header.request_id, header.op_code, compressor=compressor, error=error)
    return Request(header.request_id, header.op_code, database, command, compressor=compressor)


def _command_of(query: op_query.OpQuery) -> tuple[str, bytes]:
    """Database and command in the form of OP_MSG."""
    database, _, collection = query.namespace.partition(".")
    if collection != "$cmd":
        raise _removed(OpCode.OP_QUERY)
    if query.flags & op_query.EXHAUST:
        raise CommandError(18527, "a command sent by OP_QUERY cannot be exhausted")
    if abs(query.number_to_return) != 1:
        raise CommandError(16979, f"numberToReturn of a command is 1 or -1, not {query.number_to_return}")
    if len(query.query) <= LARGE:
        check_document(query.query)
    command, extra = _unwrapped(query.query)
    name = (raw.first_name(command) or b"").decode()
    if name not in LEGACY_COMMANDS:
        reason = f"the command '{name}' cannot be sent by OP_QUERY; the driver needs an upgrade"
        raise CommandError(ErrorCode.UnsupportedOpQueryCommand, reason)
    if raw.find(command, b"$db") is not None:
        raise CommandError(40621, "the field $db does not belong in an OP_QUERY")
    return database, raw.document(raw.body(command), *extra, raw.string(b"$db", database.encode()))


def _unwrapped(document: bytes) -> tuple[bytes, list[bytes]]:
    """The command inside `{$query: command, $readPreference: ...}`, and its read preference as an element."""
    if raw.first_name(document) not in (b"$query", b"query"):
        return document, []
    kind, _, start, end = next(raw.elements(document))
    if kind != raw.DOCUMENT:
        return document, []
    preference = raw.field(document, b"$readPreference")
    extra = [] if preference is None else [raw.element(preference[0], b"$readPreference", preference[1])]
    return document[start:end], extra


def _read_op_get_more(header: Header, _payload: bytes, compressor: Compressor | None) -> Steps[Request]:
    error = _removed(OpCode.OP_GET_MORE)
    yield from ()
    return Request(header.request_id, header.op_code, compressor=compressor, error=error)


def _removed(code: OpCode) -> CommandError:
    return CommandError(
        _REMOVED_OPCODE, f"{code.name} was removed in MongoDB 5.1; the driver needs an upgrade"
    )


READERS: Final[dict[OpCode, Callable[[Header, bytes, Compressor | None], Steps[Request]]]] = {
    OpCode.OP_MSG: read_op_msg,
    OpCode.OP_QUERY: _read_op_query,
    OpCode.OP_GET_MORE: _read_op_get_more,
}


def error_document(error: CommandError) -> dict[str, object]:
    """The reply to a command that failed."""
    reply = {"ok": 0.0, "errmsg": error.message, "code": error.code, "codeName": error.code_name}
    return reply | ({"errorLabels": list(error.labels)} if error.labels else {})


def is_removed_operation(request: Request) -> bool:
    """Whether this was not a command but a query of a driver for MongoDB before 3.6."""
    return request.error is not None and request.error.code == _REMOVED_OPCODE
