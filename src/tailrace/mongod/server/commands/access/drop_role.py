"""`dropRole`: remove a role, and take it away from all users and roles."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.builtin_roles import is_builtin
from tailrace.mongod.server.access.changing import changing, delete
from tailrace.mongod.server.access.dropping import revoke_everywhere
from tailrace.mongod.server.access.needs import on_database
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.stored import ROLES
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import TEXT


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    role = Principal(arguments.text(context.name), context.database)
    arguments.finish()
    if is_builtin(role.name, role.database):
        raise CommandError(ErrorCode.BadValue, f"{role} is a built-in role and cannot be modified")
    async with changing(context) as access:
        if access.role(role) is None:
            raise CommandError(ErrorCode.RoleNotFound, f"Could not find role: {role}")
        await revoke_everywhere(context, access, lambda other: other == role)
        await delete(context, ROLES, {"_id": role.identity})
    return {}


_FIELDS = command({"dropRole": TEXT})

COMMAND = Command(
    "dropRole",
    run,
    needs=on_database("dropRole"),
    help="Remove a role.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
