"""`dropDatabase` on a router."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.dropping import drop_database
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog.drop_database import COMMAND as ON_SERVER
from tailrace.mongod.store.ddl.drop import check_database_droppable


async def run(context: RouterContext) -> dict[str, Any]:
    """Drop all collections of the database on all shards, then the database."""
    arguments = context.arguments()
    if arguments.integer(context.name) != 1:
        raise CommandError(5255100, "Have to pass 1 as 'dropDatabase' parameter")
    arguments.ignore("dropPending")
    arguments.finish()
    database = context.database
    if database == "$external":
        raise CommandError(ErrorCode.InvalidNamespace, "the database $external cannot be dropped")
    check_database_droppable(database)
    router = context.node
    async with exclusive_placement(context, database):
        primary = router.placement.primary_of(database)
        if primary is None:
            return {}
        async with recorded_until_done(context):
            had_collections = await drop_database(router.placement, router.stores, database, primary)
    return {"dropped": database} if had_collections else {}


COMMAND = ON_SERVER.run_by(run)
