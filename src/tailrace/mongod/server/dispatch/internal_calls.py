"""Run commands on a node of this process, without a socket.

The node's dispatcher runs such a command with the same checks, sessions, fail points and errors as one that
came over the wire. Rights are not checked: the caller has checked those of the client.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.ownership import Ownership
from tailrace.mongod.server.net.client import Client
from tailrace.mongod.server.net.turns import paced
from tailrace.mongod.wire import OpCode, Request

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context
    from tailrace.mongod.server.node import Node

_NO_CONNECTION: Final = 0
_ERROR_FIELDS: Final = frozenset(
    {"ok", "errmsg", "code", "codeName", "errorLabels", "$clusterTime", "operationTime", "topologyVersion"}
)
TRANSACTION_START_FIELDS: Final = frozenset({"startTransaction", "readConcern"})
"""Not sent to shards in a transaction: they already have it, with the state that it reads"""


async def call(
    node: "Node",
    command: Mapping[str, Any],
    database: str,
    sequences: Mapping[str, Sequence[bytes]] | None = None,
    ownership: Ownership | None = None,
    part_of: "Context | None" = None,
) -> dict[str, Any]:
    """Run a command and return its reply; raises CommandError if the reply is an error.

    ``sequences`` are arrays of encoded documents, passed on unread. ``ownership`` decides which documents
    belong to a shard. An interruption of the command ``part_of`` interrupts this one, too.
    """
    body = encode({**command, "$db": database})
    request = Request(_NO_CONNECTION, OpCode.OP_MSG, database, body, sequences or {})
    client = Client(_NO_CONNECTION, "router", ownership=ownership)
    with nullcontext() if part_of is None else part_of.with_part(client):
        outcome = await paced(node.dispatcher.run, client, request)
    if outcome.close:
        raise CommandError(ErrorCode.HostUnreachable, f"the connection to {node.address} was closed")
    reply = decode(outcome.reply)
    if not reply["ok"]:
        raise _failure(reply)
    return reply


def _failure(reply: Mapping[str, Any]) -> CommandError:
    details = {name: value for name, value in reply.items() if name not in _ERROR_FIELDS}
    error = CommandError(reply.get("code", 0), reply["errmsg"], reply.get("errorLabels", ()))
    error.details = details
    return error
