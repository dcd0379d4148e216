"""`update` on a router: each statement goes to the shards that may have what it looks for."""

from tailrace.cluster.writes.batch_form import BatchForm
from tailrace.cluster.writes.commands import run_batch
from tailrace.server.command import Command, Reply
from tailrace.server.commands.update import read_statement
from tailrace.server.context import Context


async def run(context: Context) -> Reply:
    """How many documents matched, were changed and were inserted, and which statements failed and why."""
    form = BatchForm(context, "updates", read_statement)
    return await run_batch(context, form, context.documents("updates"))


COMMAND = Command(
    "update",
    run,
    help="Update documents of a collection.",
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
