"""`connectionStatus`: show the users of this connection; there is no authentication, so there are none."""

from typing import Any

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import LOOSE_FLAG


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    show_privileges = arguments.boolean("showPrivileges", False)
    arguments.finish()
    info: dict[str, Any] = {"authenticatedUsers": [], "authenticatedUserRoles": []}
    if show_privileges:
        info["authenticatedUserPrivileges"] = []
    return {"authInfo": info}


_FIELDS = command({"showPrivileges": LOOSE_FLAG})

COMMAND = Command(
    "connectionStatus",
    run,
    help="Show who is authenticated on this connection.",
    fields=_FIELDS,
    has_no_session=True,
    same_on_router=True,
)
