"""`convertToCapped`: replace a collection by a capped one with its newest documents."""

from typing import Any

from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.rename import convert_to_capped


async def run(context: MemberContext) -> dict[str, Any]:
    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    size = arguments.integer("size")
    arguments.finish()
    await run_catalog_change(context, lambda unit: convert_to_capped(unit, database, name, size))
    return {}


COMMAND = Command(
    "convertToCapped",
    run,
    help="Replace a collection by a capped one with its newest documents.",
    is_write=True,
)
