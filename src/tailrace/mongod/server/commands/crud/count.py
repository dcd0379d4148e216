"""`count`: count the documents that match a filter."""

from tailrace.mongod.language.aggregation import PAUSE
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.opening import count_index_use
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.reading import plan_find
from tailrace.mongod.server.reads.requests.count_request import COUNT_FIELDS, CountRequest
from tailrace.mongod.server.reads.requests.variables import read_variables
from tailrace.pacing import tick
from tailrace.query.expressions.numbers.number_types import int32_or_int64


async def run(context: Context) -> Reply:
    """Without a filter it is the number of records, which the store has."""
    request = CountRequest.parse(context.arguments())
    find = request.find
    state = await ReadState.of(context)
    try:
        with state.batch() as reader:
            planned = plan_find(context, state, context.command["count"], find, read_variables(context, None))
            count_index_use(context, planned.index)
            if request.is_fast and planned.target.has_only_records:
                collection = planned.target.collection
                number = 0 if collection is None else reader.count(collection)[0]
            else:
                number = 0
                most = request.most
                for row in planned.rows(state):
                    if row is PAUSE:
                        tick()
                        continue
                    number += 1
                    if number == most:
                        break
    finally:
        state.close()
    return {"n": int32_or_int64(request.window(number))}


COMMAND = Command(
    "count",
    run,
    needs=on_collection("find"),
    help="Count the documents that match a filter.",
    fields=COUNT_FIELDS,
    is_read=True,
    same_on_router=True,
)
