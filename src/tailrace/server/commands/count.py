"""`count`: how many documents match."""

import asyncio

from tailrace.query.aggregation import PAUSE
from tailrace.query.expressions.numbers import int32_or_int64
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.query.count_request import CountRequest
from tailrace.server.query.opening import count_index_use
from tailrace.server.query.read_state import ReadState
from tailrace.server.query.reading import plan_find
from tailrace.server.query.variables import read_variables


async def run(context: Context) -> Reply:
    """Count what matches; without a filter the store knows the number."""
    request = CountRequest.parse(context.arguments())
    find = request.as_find()
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
                        await asyncio.sleep(0)
                        continue
                    number += 1
                    if number == most:
                        break
    finally:
        state.close()
    return {"n": int32_or_int64(request.window(number))}


COMMAND = Command("count", run, help="Count the documents that match a filter.", is_read=True)
