"""`dropIndexes`: drop indexes of a collection."""

from typing import Any

from tailrace.mongod.server.dispatch.arguments import REQUIRED
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.create_and_drop_indexes import drop_indexes


async def run(context: MemberContext) -> dict[str, Any]:
    """Drop indexes by name, by a list of names, by key, or all except the one on `_id`."""
    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    which = arguments.value("index", REQUIRED)
    if isinstance(which, list):
        for item in which:
            if not isinstance(item, str):
                raise arguments.wrong_type("index", item, "string")
    elif not isinstance(which, str | dict):
        raise arguments.wrong_type("index", which, "[string, object, array]")
    arguments.ignore("rawData")
    arguments.finish()
    before = await run_catalog_change(context, lambda unit: drop_indexes(unit, database, name, which))
    reply: dict[str, Any] = {"nIndexesWas": before}
    if which == "*":
        reply["msg"] = "non-_id indexes dropped for collection"
    return reply


COMMAND = Command(
    "dropIndexes", run, help="Drop indexes of a collection.", aliases=("deleteIndexes",), is_write=True
)
