"""`findAndModify` on a router: change the document on the shard that has it."""

from tailrace.bson.documents import encode
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.execution import execute
from tailrace.mongod.cluster.writes.find_and_modify_form import FindAndModifyForm
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.commands.crud import find_and_modify
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.writes.retries import is_numbered


async def run(context: RouterContext) -> Reply:
    ns = f"{context.database}.{context.collection_name()}"
    form = FindAndModifyForm(context)
    number = form.spec.statement_id if is_numbered(context) else None
    await execute(context, form, [Statement(0, ns, encode(form.options), number)], ordered=True)
    return form.reply()


COMMAND = find_and_modify.COMMAND.run_by(run)
