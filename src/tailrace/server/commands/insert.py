"""`insert`: put documents into a collection."""

from typing import Any

from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.writes.batch import Batch
from tailrace.server.writes.insert import insert_batch
from tailrace.server.writes.unit import run_write


async def run(context: Context) -> Reply:
    """How many documents were inserted, and which were not and why."""
    documents = context.documents("documents")
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(documents))
    arguments.ignore("documents", "bypassEmptyTsReplacement")
    arguments.finish()
    result = await run_write(context, lambda unit: insert_batch(unit, batch, documents))
    reply: dict[str, Any] = result.errors.into({"n": result.number})
    if result.retried:
        reply["retriedStmtIds"] = result.retried
    return reply


COMMAND = Command(
    "insert",
    run,
    help="Insert documents into a collection.",
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
