"""`getMore`: return the next batch of a cursor."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import BATCH_SIZE, Fields, command
from tailrace.mongod.server.dispatch.kinds import ANY, LONG, NUMBER, TEXT, TIMESTAMP, as_whole, struct
from tailrace.mongod.server.emulation.fail_points import (
    FAIL_GET_MORE,
    FAIL_GET_NEXT,
    NEVER_AWAIT_DATA,
    WAIT_IN_GET_MORE,
)
from tailrace.mongod.server.reads.batches import cursor_reply
from tailrace.mongod.server.reads.cursors import OpenCursor

_DEFAULT_WAIT_MS: Final = 1000


async def run(context: Context) -> Reply:
    """A tailable cursor without results waits for the first one."""
    arguments = context.arguments()
    cursor_id = arguments.value("getMore")
    collection = arguments.text("collection")
    size = arguments.integer("batchSize", None, minimum=0) or None
    if not collection:
        raise CommandError(ErrorCode.InvalidNamespace, "the collection of a getMore cannot be empty")
    max_time_ms = as_whole(context.command.get("maxTimeMS"))
    cursors = context.node.cursors
    known = cursors.get(cursor_id)
    if max_time_ms is not None and known is not None and not known.cursor.is_tailable_await:
        raise CommandError(
            ErrorCode.BadValue, "cannot set maxTimeMS on getMore command for a non-awaitData cursor"
        )
    with cursors.use(context, cursor_id, f"{context.database}.{collection}") as entry:
        wait_ms = int(max_time_ms or _DEFAULT_WAIT_MS) if entry.cursor.is_tailable_await else 0
        fail_points = context.node.fail_points
        if fail_points.is_on(WAIT_IN_GET_MORE):
            await fail_points.wait_while_on(WAIT_IN_GET_MORE)
        fail_points.raise_if_active(FAIL_GET_MORE, "errorCode")
        fail_points.raise_if_active(FAIL_GET_NEXT, "code")
        if fail_points.active(NEVER_AWAIT_DATA) is not None:
            wait_ms = 0
        limit = entry.seconds_left
        if limit is not None and not entry.cursor.is_tailable_await:
            limit = fail_points.limited(limit)
        if limit is None or entry.cursor.is_tailable_await:
            batch = await entry.cursor.next_batch(size, wait_ms)
        else:
            with _time_limit(context, entry, limit):
                batch = await entry.cursor.next_batch(size, wait_ms)
        entry.returned(batch)
        ns = entry.cursor.ns
        if batch.exhausted:
            cursors.finish(entry)
    if not batch.exhausted:
        context.repeat()
    return cursor_reply("nextBatch", batch, 0 if batch.exhausted else cursor_id, ns, **entry.shown)


@contextmanager
def _time_limit(context: Context, entry: OpenCursor, seconds_left: float) -> Iterator[None]:
    """Subtract the time from the rest of the opening command's `maxTimeMS`."""
    expired = CommandError(ErrorCode.MaxTimeMSExpired, "operation exceeded time limit")
    started = time.monotonic()
    timer = asyncio.get_running_loop().call_later(seconds_left, context.interrupt, expired)
    try:
        yield
    finally:
        timer.cancel()
        entry.seconds_left = seconds_left - (time.monotonic() - started)
    if entry.seconds_left <= 0:
        raise expired  # the timer could not interrupt a batch that never waited


_OP_TIME = Fields({"ts": TIMESTAMP, "t": LONG}, required=("ts", "t"), is_open=True)


def _needs(context: Context) -> Rights:
    """What the cursor needed when it was opened; one that does not exist is not found for everybody."""
    known = context.node.cursors.get(context.command.get("getMore"))
    return () if known is None else known.rights


_FIELDS = command(
    {
        "getMore": LONG, "collection": TEXT, "batchSize": BATCH_SIZE, "maxTimeMS": NUMBER, "term": NUMBER,
        "lastKnownCommittedOpTime": struct(_OP_TIME), "includeQueryStatsMetrics": ANY,
    },
    required=("getMore", "collection"),
    since={"includeQueryStatsMetrics": ((8, 0, 0),)},
)  # fmt: skip

COMMAND = Command(
    "getMore",
    run,
    needs=_needs,
    help="Return the next batch of a cursor.",
    fields=_FIELDS,
    in_transaction=True,
    max_time_is_wait=True,
    same_on_router=True,
)
