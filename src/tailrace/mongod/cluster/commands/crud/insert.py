"""`insert` on a router: send each document to the shard that owns its key."""

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.batch_form import BatchForm, run_batch
from tailrace.mongod.server.commands.crud import insert
from tailrace.mongod.server.dispatch.command import Reply


async def run(context: RouterContext) -> Reply:
    return await run_batch(context, BatchForm(context, "documents"), context.documents("documents"))


COMMAND = insert.COMMAND.run_by(run)
