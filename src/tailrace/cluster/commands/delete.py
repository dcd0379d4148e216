"""`delete` on a router: each statement goes to the shards that may have what it looks for."""

from tailrace.cluster.writes.batch_form import BatchForm
from tailrace.cluster.writes.commands import run_batch
from tailrace.server.command import Command, Reply
from tailrace.server.commands.delete import read_statement
from tailrace.server.context import Context


async def run(context: Context) -> Reply:
    """How many documents were removed, and which statements failed and why."""
    form = BatchForm(context, "deletes", read_statement)
    return await run_batch(context, form, context.documents("deletes"))


COMMAND = Command(
    "delete",
    run,
    help="Delete documents of a collection.",
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
