"""The commands that grant and revoke: roles of users and of roles, privileges of roles."""

from collections.abc import Awaitable, Callable

from tailrace.mongod.server.access import given_privileges as privileges
from tailrace.mongod.server.access.changing import (
    changeable_role,
    changing,
    check_grantable,
    check_roles_exist,
    existing_user,
    given_roles,
    granting,
    own_roles,
    revoking,
    some_roles,
    to_documents,
    update,
)
from tailrace.mongod.server.access.needs import Needs
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.stored import ROLES, USERS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ARRAY, TEXT


def roles_command(name: str, text: str, *, of_user: bool, is_grant: bool) -> Command:
    """The command that grants roles to a user or a role, or revokes them."""

    async def run(context: Context) -> Reply:
        holder = _holder(context, "roles")
        roles = some_roles(context)
        async with changing(context) as access:
            found = existing_user(access, holder) if of_user else changeable_role(access, holder)
            if of_user:
                check_roles_exist(access, roles)
            elif is_grant:
                check_grantable(access, holder, roles)
            own = own_roles(found)
            wanted = (
                dict.fromkeys([*own, *roles]) if is_grant else [role for role in own if role not in roles]
            )
            change = {"$set": {"roles": to_documents(wanted)}}
            await update(context, USERS if of_user else ROLES, holder, change)
        return {}

    needed = granting if is_grant else revoking
    return _command(name, text, "roles", run, lambda context: needed(given_roles(context)))


def privileges_command(name: str, text: str, *, is_grant: bool) -> Command:
    """The command that grants privileges to a role, or revokes them."""

    async def run(context: Context) -> Reply:
        role = _holder(context, "privileges")
        given = privileges.some_privileges(context)
        async with changing(context) as access:
            held = privileges.stored_privileges(changeable_role(access, role))
            if is_grant:
                privileges.check_place(role, given)
            for resource, actions in given.items():
                own = held.get(resource, set())
                held[resource] = own | actions if is_grant else own - actions
            change = {"$set": {"privileges": privileges.to_documents(held)}}
            await update(context, ROLES, role, change)
        return {}

    action = "grantRole" if is_grant else "revokeRole"
    return _command(
        name,
        text,
        "privileges",
        run,
        lambda context: privileges.granting(privileges.given_privileges(context), action),
    )


def _holder(context: Context, field: str) -> Principal:
    """The user or role that the command names; ``field`` is read later."""
    arguments = context.arguments()
    holder = Principal(arguments.text(context.name), context.database)
    arguments.ignore(field)
    arguments.finish()
    return holder


def _command(
    name: str, text: str, field: str, run: Callable[[Context], Awaitable[Reply]], needs: Needs
) -> Command:
    fields = command({name: TEXT, field: ARRAY}, required=(field,))
    return Command(name, run, needs=needs, help=text, fields=fields, is_write=True, same_on_router=True)
