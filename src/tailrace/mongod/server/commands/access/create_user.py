"""`createUser`: create a user with a password and roles."""

import uuid
from typing import Any

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.changing import (
    changing,
    check_roles_exist,
    given_roles,
    granting,
    insert,
    to_documents,
)
from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.passwords import EXTERNAL, checked_mechanisms, credentials
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.access.restrictions import check_restrictions
from tailrace.mongod.server.access.stored import USERS
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ARRAY, LOOSE_FLAG, OBJECT, TEXT, array_of

_EXISTS = 51003


async def run(context: Context) -> Reply:
    """Store the user; only what is needed to check a proof of the password is stored of it."""
    arguments = context.arguments()
    user = Principal(arguments.text(context.name), context.database)
    document: dict[str, Any] = {
        "_id": user.identity,
        "userId": Binary(uuid.uuid4().bytes, 4),
        **user.to_document("user"),
        "credentials": _credentials(context, arguments, user),
    }
    custom = arguments.document("customData", None)
    if custom is not None:
        document["customData"] = custom
    restrictions = arguments.array("authenticationRestrictions", None)
    if restrictions:
        check_restrictions(restrictions)
        document["authenticationRestrictions"] = restrictions
    roles = given_roles(context)
    arguments.ignore("roles")
    arguments.finish()
    async with changing(context) as access:
        if access.user(user) is not None:
            raise CommandError(_EXISTS, f'User "{user}" already exists')
        check_roles_exist(access, roles)
        await insert(context, USERS, {**document, "roles": to_documents(roles)})
    return {}


def _credentials(context: Context, arguments: Arguments, user: Principal) -> dict[str, Any]:
    password = arguments.text("pwd", None)
    is_digested = not arguments.boolean("digestPassword", True)
    given = arguments.array("mechanisms", None)
    if not user.name:
        raise CommandError(ErrorCode.BadValue, "User document needs 'user' field to be non-empty")
    if user.database == "local":
        raise CommandError(ErrorCode.BadValue, "Cannot create users in the local database")
    if user.database == EXTERNAL:
        if password is not None:
            reason = f"Cannot set the password for users defined on the '{EXTERNAL}' database"
            raise CommandError(ErrorCode.BadValue, reason)
        return {"external": True}
    if password is None:
        reason = (
            "Must provide a 'pwd' field for all user documents, except those with "
            f"'{EXTERNAL}' as the user's source db"
        )
        raise CommandError(ErrorCode.BadValue, reason)
    mechanisms = checked_mechanisms(given)
    return credentials(user.name, password, mechanisms, context.parameters, is_digested=is_digested)


def _needs(context: Context) -> Rights:
    own = namespace(context.database)
    yield right(own, "createUser")
    if context.command.get("authenticationRestrictions"):
        yield right(own, "setAuthenticationRestriction")
    yield from granting(given_roles(context))


_FIELDS = command(
    {
        "createUser": TEXT, "pwd": TEXT, "roles": ARRAY, "customData": OBJECT, "digestPassword": LOOSE_FLAG,
        "authenticationRestrictions": ARRAY, "mechanisms": array_of(TEXT),
    },
    required=("roles",),
)  # fmt: skip

COMMAND = Command(
    "createUser",
    run,
    needs=_needs,
    help="Create a user.",
    fields=_FIELDS,
    is_write=True,
    same_on_router=True,
)
