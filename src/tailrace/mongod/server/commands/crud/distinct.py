"""`distinct`: list the values of a field, each once."""

import asyncio

from tailrace.mongod.language.aggregation import PAUSE
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.distinct_values import DistinctValues
from tailrace.mongod.server.reads.opening import count_index_use
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.reading import plan_find
from tailrace.mongod.server.reads.requests.distinct_request import DistinctRequest
from tailrace.mongod.server.reads.requests.variables import read_variables


async def run(context: Context) -> Reply:
    """The values are in the order in which they are found."""
    request = DistinctRequest.parse(context.arguments())
    state = await ReadState.of(context)
    try:
        with state.batch():
            planned = plan_find(
                context, state, context.command["distinct"], request.find, read_variables(context, None)
            )
            count_index_use(context, planned.index)
            collation = planned.query.collation
            values = DistinctValues(request.key, None if collation is None else collation.string_key)
            for row in planned.rows(state):
                if row is PAUSE:
                    await asyncio.sleep(0)
                else:
                    values.add(row.document)
    finally:
        state.close()
    return {"values": values.found}


COMMAND = Command(
    "distinct",
    run,
    help="List the values of a field, each once.",
    is_read=True,
    in_transaction=True,
    same_on_router=True,
)
