"""Run a planned find or aggregation up to its first batch, and register its cursor."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.batches import DEFAULT_FIRST_BATCH, cursor_reply, id_first_reply
from tailrace.mongod.server.reads.cursors import Cursor, CursorBatch
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.store.catalog import Index


class Planned(Protocol):
    """A planned read."""

    @property
    def summary(self) -> str:
        """The plan in a few words."""

    @property
    def index(self) -> Index | None:
        """The index that is read, if there is one."""

    @property
    def is_of_nothing(self) -> bool:
        """Whether it is a find on a collection that does not exist."""

    def cursor(self, context: Context, state: ReadState) -> Cursor:
        """A cursor over the results."""


PlannedRead = TypeVar("PlannedRead", bound=Planned)


def count_index_use(context: Context, index: Index | None) -> None:
    """Count the use of an index, for `$indexStats`."""
    if index is not None:
        context.node.counters.index_uses[index.ident] += 1


def shown_time(state: ReadState) -> dict[str, Any]:
    """The fields of a reply that name the time of the state, if all batches read one."""
    time = state.at_cluster_time
    return {} if time is None else {"atClusterTime": to_timestamp(time)}


async def open_cursor(
    context: Context,
    plan: Callable[[ReadState], PlannedRead],
    batch_size: int | None,
    *,
    single_batch: bool = False,
    no_timeout: bool = False,
) -> bytes:
    """Plan a read and run it up to its first batch; returns the reply, with a cursor for the rest."""
    state = await ReadState.of(context)
    cursor: Cursor | None = None
    try:
        with state.batch():
            planned = plan(state)
            count_index_use(context, planned.index)
            cursor = planned.cursor(context, state)
            first = await cursor.next_batch(DEFAULT_FIRST_BATCH if batch_size is None else batch_size, 0)
    except BaseException:
        if cursor is None:
            state.close()
        else:
            cursor.close()
        raise
    if planned.is_of_nothing:
        cursor.close()
        return id_first_reply([], 0, cursor.ns)
    if single_batch:
        first = CursorBatch(first.documents, exhausted=True)
    extra = shown_time(state)
    ns = cursor.ns
    cursor_id = context.node.cursors.register(
        context, cursor, first, no_timeout=no_timeout, plan_summary=planned.summary, shown=extra
    )
    return cursor_reply("firstBatch", first, cursor_id, ns, **extra)
