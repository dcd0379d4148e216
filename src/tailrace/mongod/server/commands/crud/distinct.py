"""`distinct`: list the values of a field, each once."""

from collections.abc import Mapping
from typing import Any

from bson import Regex

from tailrace.bson.documents import encode_with_ticks
from tailrace.mongod.language.aggregation import PAUSE
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.distinct_values import DistinctValues
from tailrace.mongod.server.reads.opening import count_index_use, shown_time
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.reading import PlannedFind, plan_find
from tailrace.mongod.server.reads.requests.distinct_request import DISTINCT_FIELDS, DistinctRequest
from tailrace.mongod.server.reads.requests.variables import read_variables
from tailrace.pacing import tick
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
                from_index=_reads_only_index(state, planned, request),
            )
            for row in planned.rows(state):
                if row is PAUSE:
                    tick()
                else:
                    values.add(row.document)
        return encode_with_ticks({"values": values.found, **shown_time(state)})
    finally:
        state.close()


def _reads_only_index(state: ReadState, planned: PlannedFind, request: DistinctRequest) -> bool:
    """Whether a mongod reads the values of an index instead of documents."""
    collection = planned.target.collection
    if collection is None or request.find.collation is not None:
        return False
    if any(part.isdigit() for part in request.key.split(".")):
        return False
    # With a condition, only an index without arrays can answer it alone.
    is_filtered = bool(request.find.query)
    if is_filtered and not _excludes_values(request.find.query, request.key):
        return False
    return any(
        next(iter(index.key))[0] == request.key
        and not any(index.spec.get(name) for name in ("sparse", "partialFilterExpression", "hidden"))
        and all(not isinstance(direction, str) for _, direction in index.key)
        and not (index.is_id or (is_filtered and state.reader.is_multikey(index)))
        for index in collection.indexes
    )


def _excludes_values(query: Mapping[str, Any], key: str) -> bool:
    """Whether a filter only names values that the key must not have, so that a missing key matches."""
    condition = query.get(key)
    if len(query) != 1 or not isinstance(condition, Mapping) or len(condition) != 1:
        return False
    ((operator, given),) = condition.items()
    values = given if operator == "$nin" and isinstance(given, list) else [given]
    return operator in ("$ne", "$nin") and not any(isinstance(value, list | Regex) for value in values)


COMMAND = Command(
    "distinct",
    run,
    needs=on_collection("find"),
    help="List the values of a field, each once.",
    fields=DISTINCT_FIELDS,
    is_read=True,
    in_transaction=True,
    same_on_router=True,
)
