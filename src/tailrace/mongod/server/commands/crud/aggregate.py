"""`aggregate`: run a pipeline on a collection or view, or open a change stream."""

from tailrace.events.options import check_is_document
from tailrace.mongod.language.aggregation.first_pass import check_stage_names
from tailrace.mongod.server.access.pipeline_needs import aggregate_needs
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.concerns import WriteConcern
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.generic_arguments import check_database
from tailrace.mongod.server.dispatch.kinds import is_given
from tailrace.mongod.server.reads.aggregating import PlannedAggregate, plan_aggregate, writes_results
from tailrace.mongod.server.reads.batches import cursor_reply
from tailrace.mongod.server.reads.cursors import CursorBatch
from tailrace.mongod.server.reads.explain import QUERY_PLANNER, explain_aggregate
from tailrace.mongod.server.reads.opening import open_cursor, shown_time
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.requests.aggregate_request import AGGREGATE_FIELDS, AggregateRequest
from tailrace.mongod.server.reads.requests.stable_api import check_pipeline_is_stable
from tailrace.mongod.server.reads.requests.variables import read_variables
from tailrace.mongod.server.streams.change_streams import is_change_stream, open_change_stream
from tailrace.mongod.server.streams.stream_place import check_whole_deployment


async def run(context: Context) -> Reply:
    """Open a cursor and return its first batch, or write the results (`$out`, `$merge`)."""
    if is_change_stream(context.command.get("pipeline")):
        return await open_change_stream(context)
    arguments = context.arguments()
    check_whole_deployment(context.node, arguments)
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
        shown = shown_time(state)
    finally:
        state.close()
    return cursor_reply("firstBatch", CursorBatch([]), 0, planned.ns, **shown)


def _check_first(context: Context) -> None:
    check_database(context)
    if is_given(context.command.get("writeConcern")):
        WriteConcern.parse(context.command["writeConcern"])
    pipeline = context.command["pipeline"]
    if is_change_stream(pipeline):
        first = pipeline[0]
        if isinstance(first, dict) and "$changeStream" in first:  # else it is refused because of its place
            check_is_document(first["$changeStream"])
    else:
        check_stage_names(pipeline, context.node.release.has_stage)


COMMAND = Command(
    "aggregate",
    run,
    needs=aggregate_needs,
    help="Run a pipeline on a collection, or watch changes.",
    fields=AGGREGATE_FIELDS,
    check_first=_check_first,
    is_read=True,
    in_transaction=True,
    same_on_router=True,
)
