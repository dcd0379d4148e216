"""`distinct`: list the values of a field, each once."""

import asyncio

from tailrace.mongod.language.aggregation import PAUSE
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.distinct_values import DistinctValues
from tailrace.mongod.server.reads.opening import count_index_use, shown_time
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.reading import PlannedFind, plan_find
from tailrace.mongod.server.reads.requests.distinct_request import DISTINCT_FIELDS, DistinctRequest
from tailrace.mongod.server.reads.requests.variables import read_variables
from tailrace.query.expressions.field_path import split_path


async def run(context: Context) -> Reply:
    request = DistinctRequest.parse(context.arguments())
    state = await ReadState.of(context)
    try:
        with state.batch():
            planned = plan_find(
                context, state, context.command["distinct"], request.find, read_variables(context, None)
            )
            split_path(request.key)
            count_index_use(context, planned.index)
            collation = planned.query.collation
            values = DistinctValues(
                request.key,
                None if collation is None else collation.string_key,
                missing_is_null=_reads_only_index(state, planned, request),
            )
            for row in planned.rows(state):
                if row is PAUSE:
                    await asyncio.sleep(0)
                else:
                    values.add(row.document)
        return {"values": values.found, **shown_time(state)}
    finally:
        state.close()


def _reads_only_index(state: ReadState, planned: PlannedFind, request: DistinctRequest) -> bool:
    """Whether a mongod reads an index instead of documents, where a missing field is stored as null."""
    collection = planned.target.collection
    if collection is None or request.find.query or request.find.collation is not None:
        return False
    return any(
        next(iter(index.key))[0] == request.key
        and not any(index.spec.get(name) for name in ("sparse", "partialFilterExpression", "hidden"))
        and all(not isinstance(direction, str) for _, direction in index.key)
        and not (index.is_id or state.reader.is_multikey(index))
        for index in collection.indexes
    )


COMMAND = Command(
    "distinct",
    run,
    help="List the values of a field, each once.",
    fields=DISTINCT_FIELDS,
    is_read=True,
    in_transaction=True,
    same_on_router=True,
)
