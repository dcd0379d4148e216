"""`drop`: drop a collection or a view."""

from typing import Any

from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import COLLECTION, UUID
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.drop import drop
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.mongod.store.write_unit import WriteUnit


async def run(context: MemberContext) -> dict[str, Any]:
    """Succeeds if the collection does not exist."""
    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    expected = collection_uuid(arguments)
    arguments.finish()

    def work(unit: WriteUnit) -> dict[str, Any]:
        check_uuid(unit.catalog, database, name, expected)
        return drop(unit, database, name)

    return await run_catalog_change(context, work)


_FIELDS = command({"drop": COLLECTION, "collectionUUID": UUID})

COMMAND = Command(
    "drop",
    run,
    needs=on_collection("dropCollection"),
    help="Drop a collection or a view.",
    fields=_FIELDS,
    is_write=True,
)
