"""Decide whether a client may run a command: the dispatcher asks here, and only here.

Everything is refused unless the command declares what it needs (`needs.py`) and the user has it.
"""

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import NOBODY, OPEN, Rights
from tailrace.mongod.server.access.privileges import CLUSTER, Privileges, namespace

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context
    from tailrace.mongod.server.net.client import Client

_NOTHING: Final = Privileges()
_FIRST_STEPS: Final = Privileges(
    [
        (namespace("admin"), ("createUser", "createRole", "grantRole")),
        (CLUSTER, ("addShard", "replSetConfigure", "replSetGetStatus")),
    ]
)
"""What a client on this machine may do while there are no users."""
_MOST_SHOWN: Final = 1000


def check_login(context: "Context") -> None:
    """Refuse a command of a client that has to log in first."""
    entry, client = context.entry, context.client
    _forget_removed(client)
    if client.user is not None or entry.needs is OPEN:
        return
    check_admin_only(context)
    if not _has_first_steps(context):
        reason = f"command {context.name} requires authentication"
        raise CommandError(ErrorCode.Unauthorized, reason)


def check_admin_only(context: "Context") -> None:
    """Refuse a command that was sent to another database than admin, if it runs only there."""
    if context.entry.admin_only and context.database != "admin":
        reason = f"{context.name} may only be run against the admin database."
        raise CommandError(ErrorCode.Unauthorized, reason)


def check_rights(context: "Context") -> None:
    """Refuse a command that the user has no right to."""
    needs = context.entry.needs
    rights: Rights = (NOBODY,) if needs is None else tuple(needs(context))
    privileges = privileges_of(context)
    if not all(right.is_held(privileges) for right in rights):
        raise not_authorized(context)
    context.rights = rights


def privileges_of(context: "Context") -> Privileges:
    """What the client of a command may do, if access is controlled."""
    user = context.client.user
    if user is not None:
        return user.privileges or _NOTHING
    return _FIRST_STEPS if _has_first_steps(context) else _NOTHING


def may(context: "Context", *rights: Any) -> bool:
    """Whether the client of a command has rights; always, if access is not controlled."""
    if context.client.guard is None:
        return True
    privileges = privileges_of(context)
    return all(right.is_held(privileges) for right in rights)


def not_authorized(context: "Context") -> CommandError:
    text = f"{context.shown_command}"[:_MOST_SHOWN]
    reason = f"not authorized on {context.database} to execute command {text}"
    return CommandError(ErrorCode.Unauthorized, reason)


def _has_first_steps(context: "Context") -> bool:
    """Whether the client may create the first user: it is on this machine, and there is none."""
    return (
        bool(context.parameters["enableLocalhostAuthBypass"])
        and _is_local(context.client.host)
        and context.node.access.is_empty
    )


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _forget_removed(client: "Client") -> None:
    """Log out a user that no longer exists."""
    if client.user is not None and client.user.privileges is None:
        client.user = None
