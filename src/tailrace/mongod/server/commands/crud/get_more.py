"""`getMore`: return the next batch of a cursor."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.emulation.fail_points import FAIL_GET_MORE, FAIL_GET_NEXT, NEVER_AWAIT_DATA
from tailrace.mongod.server.reads.batches import cursor_reply
from tailrace.mongod.server.reads.cursors import OpenCursor

_DEFAULT_WAIT_MS: Final = 1000


async def run(context: Context) -> Reply:
    """A tailable cursor without results waits for the first one."""
    arguments = context.arguments()
    cursor_id = arguments.value("getMore")
    if isinstance(cursor_id, bool) or not isinstance(cursor_id, int):
        reason = (
            f"BSON field 'getMore.getMore' is the wrong type '{type_name(cursor_id)}', expected type 'long'"
        )
        raise CommandError(ErrorCode.TypeMismatch, reason)
    collection = arguments.text("collection")
    size = arguments.integer("batchSize", None, minimum=0) or None
    arguments.ignore("term", "lastKnownCommittedOpTime", "includeQueryStatsMetrics")
    arguments.finish()
    if not collection:
        raise CommandError(ErrorCode.InvalidNamespace, "the collection of a getMore cannot be empty")
    max_time_ms = context.command.get("maxTimeMS")
    cursors = context.node.cursors
    known = cursors.get(cursor_id)
    if max_time_ms and known is not None and not known.cursor.is_tailable_await:
        raise CommandError(
            ErrorCode.BadValue, "cannot set maxTimeMS on getMore command for a non-awaitData cursor"
        )
    with cursors.use(context, cursor_id, f"{context.database}.{collection}") as entry:
        wait_ms = int(max_time_ms or _DEFAULT_WAIT_MS) if entry.cursor.is_tailable_await else 0
        fail_points = context.node.fail_points
        fail_points.raise_if_active(FAIL_GET_MORE, "errorCode")
        fail_points.raise_if_active(FAIL_GET_NEXT, "code")
        if fail_points.active(NEVER_AWAIT_DATA) is not None:
            wait_ms = 0
        if entry.seconds_left is None or entry.cursor.is_tailable_await:
            batch = await entry.cursor.next_batch(size, wait_ms)
        else:
            with _time_limit(context, entry, entry.seconds_left):
                batch = await entry.cursor.next_batch(size, wait_ms)
        entry.returned(batch)
        ns = entry.cursor.ns
        if batch.exhausted:
            cursors.finish(entry)
    if not batch.exhausted:
        context.repeat()
    return cursor_reply("nextBatch", batch, 0 if batch.exhausted else cursor_id, ns)


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


COMMAND = Command(
    "getMore",
    run,
    help="Return the next batch of a cursor.",
    in_transaction=True,
    max_time_is_wait=True,
    same_on_router=True,
)
