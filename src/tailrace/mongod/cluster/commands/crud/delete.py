"""`delete` on a router: each statement goes to the shards that may have what it looks for."""

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.batch_form import BatchForm, run_batch
from tailrace.mongod.server.commands.crud import delete
from tailrace.mongod.server.commands.crud.delete import read_statement
from tailrace.mongod.server.dispatch.command import Reply


async def run(context: RouterContext) -> Reply:
    """How many documents were removed, and which statements failed and why."""
    form = BatchForm(context, "deletes", read_statement)
    return await run_batch(context, form, context.documents("deletes"))


COMMAND = delete.COMMAND.run_by(run)
