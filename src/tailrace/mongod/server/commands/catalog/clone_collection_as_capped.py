"""`cloneCollectionAsCapped`: copy a collection to a new capped one."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights, right, text_of
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.clone_capped import clone_as_capped


async def run(context: MemberContext) -> dict[str, Any]:
    database, command = context.database, context.command
    for field in (context.name, "toCollection"):
        if type(command.get(field)) is not str:
            raise CommandError(ErrorCode.TypeMismatch, f"'{field}' must be of type String")
    name, target = command[context.name], command["toCollection"]
    if not name or not target:
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid target collection name: {target}")
    given = command.get("size")
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    size = context.arguments().integer("size") if is_number else 0
    if not size:
        raise CommandError(0, "invalid command spec")
    if size < 0:
        raise CommandError(ErrorCode.BadValue, "size has to be >= 0")
    is_temporary = bool(command.get("temp"))
    await run_catalog_change(
        context,
        lambda unit: clone_as_capped(unit, database, name, target, size=size, is_temporary=is_temporary),
    )
    return {}


def _needs(context: MemberContext) -> Rights:
    source, target = (text_of(context.command.get(name)) for name in (context.name, "toCollection"))
    yield right(namespace(context.database, source), "find")
    yield right(namespace(context.database, target), "insert", "createIndex", "convertToCapped")


COMMAND = Command(
    "cloneCollectionAsCapped", run, needs=_needs, help="Copy a collection to a new capped one.", is_write=True
)
