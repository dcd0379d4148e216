"""`find`: find the documents of a collection or view that match a filter."""

from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.opening import open_cursor
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.reading import PlannedFind, plan_find
from tailrace.mongod.server.reads.requests.find_request import FIND_FIELDS, FindRequest
from tailrace.mongod.server.reads.requests.stable_api import check_find_is_stable
from tailrace.mongod.server.reads.requests.variables import read_variables


async def run(context: Context) -> Reply:
    check_find_is_stable(context.command)
    request = FindRequest.parse(context.arguments())
    variables = read_variables(context, request.let)

    def plan(state: ReadState) -> PlannedFind:
        return plan_find(context, state, context.command["find"], request, variables)

    return await open_cursor(
        context,
        plan,
        request.batch_size,
        single_batch=request.single_batch,
        no_timeout=request.no_cursor_timeout,
    )


COMMAND = Command(
    "find",
    run,
    needs=on_collection("find"),
    help="Find the documents that match a filter.",
    fields=FIND_FIELDS,
    is_read=True,
    in_transaction=True,
    same_on_router=True,
)
