"""`grantPrivilegesToRole`: grant privileges to a role."""

from tailrace.mongod.server.access.changing import changeable_role, changing, update
from tailrace.mongod.server.access.given_privileges import (
    check_place,
    given_privileges,
    granting,
    some_privileges,
    stored_privileges,
    to_documents,
)
from tailrace.mongod.server.access.needs import Rights
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.stored import ROLES
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ARRAY, TEXT


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    role = Principal(arguments.text(context.name), context.database)
    arguments.ignore("privileges")
    arguments.finish()
    given = some_privileges(context)
    async with changing(context) as access:
        held = stored_privileges(changeable_role(access, role))
        check_place(role, given)
        for resource, actions in given.items():
            held.setdefault(resource, set()).update(actions)
        await update(context, ROLES, role, {"$set": {"privileges": to_documents(held)}})
    return {}


def _needs(context: Context) -> Rights:
    return granting(given_privileges(context))


_FIELDS = command({"grantPrivilegesToRole": TEXT, "privileges": ARRAY}, required=("privileges",))

COMMAND = Command(
    "grantPrivilegesToRole",
    run,
    needs=_needs,
    help="Grant privileges to a role.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
