"""`dropDatabase`: drop all collections of a database."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_database
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import LATER, command
from tailrace.mongod.server.dispatch.kinds import ANY, NUMBER
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.drop import drop_database


async def run(context: MemberContext) -> dict[str, Any]:
    arguments = context.arguments()
    if arguments.integer(context.name) != 1:
        raise CommandError(5255100, "Have to pass 1 as 'dropDatabase' parameter")
    arguments.ignore("dropPending")
    arguments.finish()
    if context.database == "$external":
        raise CommandError(ErrorCode.InvalidNamespace, "there is no database $external to drop")
    await run_catalog_change(context, lambda unit: drop_database(unit, context.database))
    return {}


_FIELDS = command(
    {"dropDatabase": NUMBER, "dropPending": ANY}, required=("dropDatabase",), since={"dropPending": LATER}
)

COMMAND = Command(
    "dropDatabase",
    run,
    needs=on_database("dropDatabase"),
    help="Drop a database with all its collections.",
    fields=_FIELDS,
    is_write=True,
)
