"""`find`: the documents of a collection or view that match a filter."""

from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.query.find_request import FindRequest
from tailrace.server.query.opening import open_cursor
from tailrace.server.query.read_state import ReadState
from tailrace.server.query.reading import PlannedFind, plan_find
from tailrace.server.query.stable_api import check_find_is_stable
from tailrace.server.query.variables import read_variables


async def run(context: Context) -> Reply:
    """Open a cursor and give its first batch."""
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
    "find", run, help="Find the documents that match a filter.", is_read=True, in_transaction=True
)
