"""`connectionStatus`: show the user of this connection."""

from typing import Any

from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import LOOSE_FLAG


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    show_privileges = arguments.boolean("showPrivileges", False)
    arguments.finish()
    user = context.client.user
    privileges = None if user is None else user.privileges
    info: dict[str, Any] = {"authenticatedUsers": [], "authenticatedUserRoles": []}
    if user is not None and privileges is not None:
        info["authenticatedUsers"] = [user.principal.to_document("user")]
        info["authenticatedUserRoles"] = [role.to_document("role") for role in user.roles]
    if show_privileges:
        info["authenticatedUserPrivileges"] = [] if privileges is None else privileges.to_documents()
    return {"authInfo": info}


_FIELDS = command({"showPrivileges": LOOSE_FLAG})

COMMAND = Command(
    "connectionStatus",
    run,
    needs=OPEN,
    help="Show who is authenticated on this connection.",
    fields=_FIELDS,
    has_no_session=True,
    same_on_router=True,
)
