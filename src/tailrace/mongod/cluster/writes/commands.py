"""What insert, update and delete have in common on a router."""

from collections.abc import Sequence

from tailrace.mongod.cluster.writes.batch_form import BatchForm
from tailrace.mongod.cluster.writes.execution import execute
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.writes.batch import check_batch_size, read_statement_ids


async def run_batch(context: Context, form: BatchForm, documents: Sequence[bytes]) -> Reply:
    """Run the statements of a command on the collection it names."""
    check_batch_size(len(documents))
    ns = f"{context.database}.{context.collection_name()}"
    arguments = context.arguments()
    ids = read_statement_ids(context, arguments, len(documents))
    statements = [
        Statement(index, ns, raw, ids[index] if ids else None) for index, raw in enumerate(documents)
    ]
    await execute(context, form, statements, ordered=arguments.boolean("ordered", True))
    return form.reply()
