"""`find`: the documents of a collection or view that match a filter."""

from tailrace.model.cluster_time import to_timestamp
from tailrace.server.batches import DEFAULT_FIRST_BATCH, cursor_reply
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.cursors import CursorBatch
from tailrace.server.query.find_request import FindRequest
from tailrace.server.query.read_state import ReadState
from tailrace.server.query.reading import plan_find
from tailrace.server.query.targets import resolve_named
from tailrace.server.query.variables import read_variables
from tailrace.store.ddl.lookup import check_uuid


async def run(context: Context) -> Reply:
    """Open a cursor and give its first batch."""
    request = FindRequest.parse(context.arguments())
    variables = read_variables(context, request.let)
    state = await ReadState.of(context)
    cursor = None
    try:
        with state.batch() as reader:
            target = resolve_named(reader.catalog, context.database, context.command["find"])
            check_uuid(reader.catalog, context.database, target.name, request.collection_uuid)
            planned = plan_find(context, state, target, request, variables)
            is_empty = request.tailable and (
                target.collection is None or not reader.count(target.collection)[0]
            )
        cursor = planned.cursor(context, state)
        size = DEFAULT_FIRST_BATCH if request.batch_size is None else request.batch_size
        first = await cursor.next_batch(size, 0)
    except BaseException:
        if cursor is None:
            state.close()
        else:
            cursor.close()
        raise
    # A tailable cursor has no position in a collection without documents, and so cannot follow it.
    if request.single_batch or is_empty:
        first = CursorBatch(first.documents, exhausted=True)
    time = state.at_cluster_time
    cursor_id = context.server.cursors.register(
        context, cursor, first, no_timeout=request.no_cursor_timeout, plan_summary=planned.summary
    )
    extra = {} if time is None else {"atClusterTime": to_timestamp(time)}
    return cursor_reply("firstBatch", first, cursor_id, target.ns, **extra)


COMMAND = Command(
    "find", run, help="Find the documents that match a filter.", is_read=True, in_transaction=True
)
