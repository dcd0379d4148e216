"""`delete` on a router: send each statement to the shards that may have matches."""

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.batch_form import BatchForm, run_batch
from tailrace.mongod.server.commands.crud import delete
from tailrace.mongod.server.commands.crud.delete import read_statement
from tailrace.mongod.server.dispatch.command import Reply


async def run(context: RouterContext) -> Reply:
    form = BatchForm(context, "deletes", read_statement)
    return await run_batch(context, form, context.documents("deletes"))


COMMAND = delete.COMMAND.run_by(run)
