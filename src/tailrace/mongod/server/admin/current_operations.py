"""The entries of currentOp and of the aggregation stage `$currentOp`."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from tailrace.bson.documents import decode
from tailrace.bson.shell_notation import shell_beginning
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.net.client import Client

if TYPE_CHECKING:
    from tailrace.mongod.server.access.stored import LoggedIn
    from tailrace.mongod.server.node import Node
    from tailrace.mongod.server.reads.cursors import OpenCursor

_OPERATIONS: Final = {
    "find": "query", "getMore": "getmore", "insert": "insert", "update": "update", "delete": "remove",
    "bulkWrite": "bulkWrite",
}  # fmt: skip
_LONGEST_COMMAND: Final = 1000


def all_operations(
    node: "Node", *, is_local: bool, owner: "LoggedIn | None" = None, **shown: bool
) -> list[dict[str, Any]]:
    """The operations of a node and, unless ``is_local``, of a router's shards.

    With an ``owner`` only those of this user.
    """
    operations = current_operations(node, owner=owner, **shown)
    if owner is not None:
        return operations
    for name, shard in {} if is_local else node.shards.items():
        for operation in current_operations(shard, owner=None, **shown):
            if "opid" in operation:
                operation["opid"] = f"{name}:{operation['opid']}"
            operations.append({"shard": name, **operation})
    return operations


def current_operations(
    node: "Node",
    *,
    owner: "LoggedIn | None" = None,
    truncated: bool = False,
    idle_connections: bool = False,
    idle_cursors: bool = False,
    idle_sessions: bool = True,
) -> list[dict[str, Any]]:
    """Running commands, and on request idle connections, cursors and sessions.

    With ``truncated`` only the beginning of a long command.
    """
    own = [context for context in node.operations.values() if _is_own(context.client.user, owner)]
    cursors = node.cursors.in_use()
    shown = [
        _operation(node, context, cursors.get(context.operation_id), truncated=truncated) for context in own
    ]
    if idle_connections:
        busy = {context.client.id for context in node.operations.values()}
        connections = [c for c in node.listener.connections.values() if _is_own(c.client.user, owner)]
        shown += [_connection(node, c.client) for c in connections if c.client.id not in busy]
    if idle_cursors:
        shown += [
            operation
            for entry, operation in node.cursors.idle_operations(node.address)
            if _is_own(entry.owner, owner)
        ]
    if idle_sessions:
        busy_sessions = {context.lsid for context in node.operations.values()}
        shown += [
            {"type": "idleSession", "host": node.address, "desc": "inactive transaction", "active": False,
             "lsid": decode(session.lsid), "transaction": session.transaction.describe()}
            for session in node.sessions
            if session.transaction is not None
            and session.transaction.is_open
            and session.lsid not in busy_sessions
            and (owner is None or owner.digest in session.lsid)
        ]  # fmt: skip
    return shown


def own_only(context: Context, *, is_wanted: bool) -> "LoggedIn | None":
    """The user whose operations a command may show; None for those of all."""
    return context.client.user if is_wanted and context.client.guard is not None else None


def _is_own(user: "LoggedIn | None", owner: "LoggedIn | None") -> bool:
    return owner is None or (user is not None and user.principal == owner.principal)


def _operation(
    node: "Node", context: Context, cursor: "OpenCursor | None", *, truncated: bool
) -> dict[str, Any]:
    seconds = time.monotonic() - context.started
    shown = _about_client(node, context.client)
    shown |= {"active": True, "currentOpTime": _now(node), "threaded": True, "opid": context.operation_id}
    if context.lsid is not None:
        shown["lsid"] = decode(context.lsid)
    shown |= {
        "secs_running": Int64(int(seconds)),
        "microsecs_running": Int64(int(seconds * 1_000_000)),
        "op": _OPERATIONS.get(context.entry.name, "command"),
        "ns": context.namespace or f"{context.database}.$cmd",
        "redacted": False,
        "command": _beginning(context) if truncated else context.shown_command,
        "numYields": 0,
        "waitingForLock": context.waits_for_lock,
        "waitingForLatch": {},
        "killPending": context.interruption is not None,
    }
    if cursor is not None:
        shown["cursor"] = cursor.describe()
    if context.transaction is not None:
        shown["transaction"] = context.transaction.describe()
    return shown


def _beginning(context: Context) -> dict[str, Any]:
    """The command, or if it is long the beginning of its text, and its comment."""
    command = context.shown_command
    if len(context.request.command) <= _LONGEST_COMMAND:
        return command
    shown: dict[str, Any] = {"$truncated": shell_beginning(command, _LONGEST_COMMAND)}
    if "comment" in command:
        shown["comment"] = command["comment"]
    return shown


def _connection(node: "Node", client: Client) -> dict[str, Any]:
    shown = _about_client(node, client)
    return shown | {"active": False, "currentOpTime": _now(node)}


def _about_client(node: "Node", client: Client) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "type": "op",
        "host": node.address,
        "desc": client.name,
        "connectionId": client.id,
        "client": client.address,
    }
    if client.app_name is not None:
        shown["appName"] = client.app_name
    if client.metadata is not None:
        shown["clientMetadata"] = dict(client.metadata)
    if client.user is not None:
        shown["effectiveUsers"] = [client.user.principal.to_document("user")]
    return shown


def _now(node: "Node") -> str:
    return datetime.fromtimestamp(node.wall.seconds(), UTC).isoformat(timespec="milliseconds")
