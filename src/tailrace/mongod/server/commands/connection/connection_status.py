"""`connectionStatus`: who is authenticated on this connection; nobody, for there is no authentication."""

from typing import Any

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """No users, no roles."""
    arguments = context.arguments()
    show_privileges = arguments.boolean("showPrivileges", False)
    arguments.finish()
    info: dict[str, Any] = {"authenticatedUsers": [], "authenticatedUserRoles": []}
    if show_privileges:
        info["authenticatedUserPrivileges"] = []
    return {"authInfo": info}


COMMAND = Command(
    "connectionStatus", run, help="Show who is authenticated on this connection.", same_on_router=True
)
