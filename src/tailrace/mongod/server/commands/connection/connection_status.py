"""`connectionStatus`: show the users of this connection; there is no authentication, so there are none."""

from typing import Any

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
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
