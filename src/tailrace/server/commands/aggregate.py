"""`aggregate`: the results of a pipeline on a collection or view, and change streams."""

from tailrace.server.batches import cursor_reply
from tailrace.server.change_streams import is_change_stream, open_change_stream
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.cursors import CursorBatch
from tailrace.server.query.aggregate_request import AggregateRequest
from tailrace.server.query.aggregating import PlannedAggregate, plan_aggregate, writes_results
from tailrace.server.query.explain import QUERY_PLANNER, explain_aggregate
from tailrace.server.query.opening import open_cursor
from tailrace.server.query.read_state import ReadState
from tailrace.server.query.stable_api import check_pipeline_is_stable
from tailrace.server.query.variables import read_variables
from tailrace.server.stream_place import check_whole_deployment


async def run(context: Context) -> Reply:
    """Open a cursor and give its first batch; or write the results, if the pipeline says so."""
    pipeline = context.command.get("pipeline")
    if isinstance(pipeline, list) and is_change_stream(pipeline):
        return await open_change_stream(context, pipeline)
    arguments = context.arguments()
    check_whole_deployment(context.server, arguments)
    request = AggregateRequest.parse(arguments)
    check_pipeline_is_stable(context.command, request.pipeline)
    if request.explain:
        return await explain_aggregate(context, request, QUERY_PLANNER)
    variables = read_variables(context, request.let)

    def plan(state: ReadState) -> PlannedAggregate:
        return plan_aggregate(context, state, request, variables)

    if not writes_results(request.pipeline):
        return await open_cursor(context, plan, request.batch_size)
    state = await ReadState.of(context)
    try:
        with state.batch():
            planned = plan(state)
            await planned.write(context, state)
    finally:
        state.close()
    return cursor_reply("firstBatch", CursorBatch([]), 0, planned.ns)


COMMAND = Command(
    "aggregate",
    run,
    help="Run a pipeline on a collection, or watch changes.",
    is_read=True,
    in_transaction=True,
)
