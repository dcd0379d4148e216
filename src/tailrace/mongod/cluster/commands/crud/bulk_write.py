"""`bulkWrite` on a router: send each operation to its shards."""

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.bulk_form import BulkForm
from tailrace.mongod.cluster.writes.execution import execute
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.commands.crud import bulk_write
from tailrace.mongod.server.commands.crud.bulk_write import read_namespaces, read_operation
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.reads.listing import batch_size
from tailrace.mongod.server.writes.batch import check_batch_size, read_statement_ids


async def run(context: RouterContext) -> Reply:
    """A cursor over the results of the operations, and the sums."""
    documents = context.documents("ops")
    check_batch_size(len(documents))
    namespaces = read_namespaces(context.documents("nsInfo"))
    operations = [read_operation(raw, position, namespaces) for position, raw in enumerate(documents)]
    arguments = context.arguments()
    size = batch_size(arguments)
    ids = read_statement_ids(context, arguments, len(operations))
    statements = [
        Statement(index, str(operations[index].namespace), raw, ids[index] if ids else None)
        for index, raw in enumerate(documents)
    ]
    form = BulkForm(context, operations)
    await execute(context, form, statements, ordered=arguments.boolean("ordered", True))
    return form.reply(size)


COMMAND = bulk_write.COMMAND.run_by(run)
