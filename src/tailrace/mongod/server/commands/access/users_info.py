"""`usersInfo`: describe users; there is no authentication, so there are none."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.principals import is_all, principals
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.query.match import compile_match


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    wanted = arguments.value(context.name, None)
    has_details = arguments.boolean("showPrivileges", False)
    has_details |= arguments.boolean("showAuthenticationRestrictions", False)
    arguments.boolean("showCredentials", False)
    arguments.boolean("showCustomData", True)
    filtered = arguments.document("filter", None)
    arguments.finish()
    is_exact = _check_names(wanted, context.database)
    if has_details and (filtered is not None or not is_exact):
        reason = "Privilege or restriction details require exact-match usersInfo queries"
        raise CommandError(ErrorCode.IllegalOperation, reason)
    compile_match(filtered or {})
    return {"users": []}


def _check_names(wanted: Any, database: str) -> bool:
    """Refuse what names no users; return whether single users are named."""
    if is_all(wanted):
        return False
    if isinstance(wanted, dict) and list(wanted) == ["forAllDBs"] and wanted["forAllDBs"]:
        return False
    if not principals(wanted, "user", database, strict=True):
        raise CommandError(ErrorCode.BadValue, "$and/$or/$nor must be a nonempty array")
    return True


COMMAND = Command("usersInfo", run, help="Describe users.", same_on_router=True)
