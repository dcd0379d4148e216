"""Open change streams: `aggregate` with `$changeStream`, and its cursor.

The stages and the event log decide everything about events. This module has the command's arguments, the
waiting, and the log lines and counters of streams.
"""

import asyncio
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.options import ChangeStreamOptions
from tailrace.events.stages.plan import EMIT_FROM_MIGRATE, END_OF_TRANSACTION_FLAG, Plan
from tailrace.events.stages.stage import Row, VerbatimRow
from tailrace.log.event_log import EventLog
from tailrace.log.stream import LogStream
from tailrace.mongod.server.admin.counters import ChangeStreamCounters
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.emulation.release import POST_BATCH_RESUME_TOKEN, Release
from tailrace.mongod.server.net.turns import paced
from tailrace.mongod.server.reads.batches import (
    DEFAULT_FIRST_BATCH,
    ELEMENT_OVERHEAD,
    MAX_BATCH_BYTES,
    cursor_reply,
)
from tailrace.mongod.server.reads.cursors import CursorBatch
from tailrace.mongod.server.reads.explain import explanation
from tailrace.mongod.server.reads.requests.aggregate_request import AggregateRequest
from tailrace.mongod.server.streams.stream_checks import STAGE, check_stream
from tailrace.mongod.server.streams.stream_place import place_of_stream
from tailrace.pacing import tick

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

_UNCOUNTED: Final = 1 << 31
_SECONDS_AT_ONCE: Final = 0.005
"""After this time a batch is returned with what was found."""
_LARGE_BATCH: Final = 1 << 18
"""After a batch of this many bytes the next one is prepared while the client reads."""
_BYTES_AHEAD: Final = 1 << 19
"""How much is prepared: little, because many streams may catch up at the same time."""


def is_change_stream(pipeline: object) -> bool:
    """Whether a pipeline, which need not be valid, has `$changeStream` at any place."""
    return isinstance(pipeline, list) and any(
        isinstance(stage, dict) and STAGE in stage for stage in pipeline
    )


async def open_change_stream(context: "Context", *, is_explained: bool = False) -> Reply:
    """Open a stream and return its first batch, or explain it."""
    node = context.node
    release = node.release
    context.is_change_stream = True
    arguments = context.arguments()
    place = place_of_stream(node, arguments)
    _check_partial_results(arguments)
    request = AggregateRequest.parse(arguments, is_explained=is_explained)
    scope = check_stream(context, place, request)
    pipeline = request.pipeline
    plan = Plan.open(
        scope,
        _raw_spec(context) or pipeline[0][STAGE],
        pipeline[1:],
        on_router=place.is_router,
        is_replica_set=place.is_replicated,
        raw_data=request.raw_data,
        parameters={
            END_OF_TRANSACTION_FLAG: place.parameters[END_OF_TRANSACTION_FLAG],
            EMIT_FROM_MIGRATE: place.parameters[EMIT_FROM_MIGRATE],
        },
        collation=request.collation,
        let=request.let,
        release=release.stream,
    )
    if request.explain:
        return explanation(context, plan.explain())
    cursor = ChangeStreamCursor(
        place.event_log,
        plan,
        release=release,
        counters=node.counters.change_streams,
        logbook=node.log,
        comment=context.command.get("comment"),
    )
    size = DEFAULT_FIRST_BATCH if request.batch_size is None else request.batch_size
    try:
        batch = await cursor.first_batch(size)
    except BaseException:
        cursor.close()
        raise
    cursor_id = node.cursors.register(context, cursor, batch)
    return cursor_reply("firstBatch", batch, cursor_id, cursor.ns)


def _check_partial_results(arguments: Arguments) -> None:
    if arguments.boolean("allowPartialResults", False):
        raise CommandError(ErrorCode.InvalidOptions, "a change stream cannot leave out what is not available")


def _raw_spec(context: "Context") -> bytes | None:
    """The specification as bytes, in which a repeated option can be found."""
    body = context.request.command
    pipeline = rawbson.find(body, b"pipeline")
    if pipeline is None or pipeline[0] != rawbson.ARRAY:
        return None
    first = next(rawbson.elements(body, pipeline[2]), None)
    if first is None or first[0] != rawbson.DOCUMENT:
        return None
    return rawbson.subdocument(body[first[2] : first[3]], STAGE.encode())


class ChangeStreamCursor:
    """The cursor of an open stream."""

    is_tailable = True
    is_tailable_await = True
    is_change_stream = True

    def __init__(
        self,
        log: EventLog,
        plan: Plan,
        *,
        release: Release,
        counters: ChangeStreamCounters,
        logbook: Logbook,
        comment: object = None,
    ) -> None:
        self.ns = plan.scope.cursor_ns
        self._release = release
        self._logbook = logbook
        self._stream = LogStream(plan, log, log.lookups)
        self._counters = counters
        self._attributes: dict[str, Any] = {"ns": self.ns, **_shown_options(plan.options)}
        if comment is not None:
            self._attributes["comment"] = comment
        self._is_open = True
        self._events = 0
        self._splits = plan.splits
        self._shows_position = release.has(POST_BATCH_RESUME_TOKEN)
        self._ahead: asyncio.Task[None] | None = None
        self._is_wanted = False
        """Whether a getMore waits for the end of the preparation."""
        self._count_opening(plan)

    async def first_batch(self, size: int) -> CursorBatch:
        """The events that are available, without waiting."""
        return self._batch([]) if size == 0 else await self._collect(size)

    async def next_batch(self, size: int | None, wait_ms: int) -> CursorBatch:
        await self._finish_work_ahead()
        limit = size or _UNCOUNTED
        stream = self._stream
        end = monotonic() + wait_ms / 1000
        while True:
            if stream.has_news:
                batch = await self._collect(limit)
                if batch.documents or batch.exhausted:
                    return batch
            remaining = end - monotonic()
            if remaining <= 0 or not await stream.wait(remaining):
                return self._batch([])

    async def _collect(self, limit: int) -> CursorBatch:
        """The available events: as many as fit and can be found in a short time, or the error among them."""
        rows: list[Row | VerbatimRow] = []
        size = MAX_BATCH_BYTES
        stream = self._stream
        pause = 0.0
        while True:
            while stream.must_fetch and await stream.fetch():
                tick()
            try:
                taken = stream.take(
                    limit - len(rows), size, overhead=ELEMENT_OVERHEAD, at_least=0 if rows else 1
                )
            except CommandError as error:
                # The rows before it are lost with the batch, as on a mongod.
                self._failed(error)
                raise self._release.stream_error(error) from None
            rows += taken
            if len(rows) >= limit:
                break
            if stream.is_failing:
                continue
            if not stream.is_behind or (rows and stream.holds_rows) or stream.is_done:
                break
            size -= sum([len(row.raw) for row in taken]) + ELEMENT_OVERHEAD * len(taken)
            # Of processor time: on a busy machine a batch is not shorter.
            if thread_time() >= pause:
                if pause and rows:
                    break  # the client can begin to read, and requests the rest afterwards
                tick()
                pause = thread_time() + _SECONDS_AT_ONCE
        if stream.is_behind and sum([len(row.raw) for row in rows]) >= _LARGE_BATCH:
            # While the client reads, the next batch is prepared.
            self._ahead = asyncio.get_running_loop().create_task(paced(self._work_ahead))
        return self._batch(rows)

    async def _work_ahead(self) -> None:
        """Prepare a part of the next batch, pausing for everything else."""
        stream = self._stream
        while not self._is_wanted:
            await asyncio.sleep(0)
            if stream.must_fetch and await stream.fetch():
                continue
            if not stream.work_ahead(_BYTES_AHEAD):
                return

    async def _finish_work_ahead(self) -> None:
        """Wait for the end of what is being prepared, which may be in the middle of an event."""
        if self._ahead is not None:
            self._is_wanted = True
            await asyncio.wait([self._ahead])
            self._ahead, self._is_wanted = None, False

    def _stop_work_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def _batch(self, rows: list[Row | VerbatimRow]) -> CursorBatch:
        stream = self._stream
        documents = [row.raw for row in rows]
        if self._splits:
            self._counters.large_events_split += sum(row.fragment == 0 for row in rows)
        self._events += len(rows)
        self._counters.events += len(rows)
        is_done = stream.is_done
        position = stream.position if self._shows_position else None
        return CursorBatch(documents, position, exhausted=is_done, invalidated=is_done)

    def close(self) -> None:
        self._stop_work_ahead()
        if self._is_open:
            self._is_open = False
            self._counters.open -= 1
            self._counters.closed += 1
            self._log("Change stream closed", events=self._events)

    # -- log and counters -----------------------------------------------------------

    def _count_opening(self, plan: Plan) -> None:
        counters, options = self._counters, plan.options
        counters.opened += 1
        counters.open += 1
        counters.scopes[plan.scope.kind.value] += 1
        counters.show_expanded_events += options.show_expanded_events
        for name in options.to_spec():
            counters.options[name] = counters.options.get(name, 0) + 1
        is_resumed = options.resume_after is not None or options.start_after is not None
        counters.resumed += is_resumed
        self._log("Change stream resumed" if is_resumed else "Change stream opened")

    def _failed(self, error: CommandError) -> None:
        self._counters.failed += 1
        self._counters.large_events_failed += error.code == ErrorCode.BSONObjectTooLarge
        self._log("Change stream failed", code=error.code, error=error.message)

    def _log(self, message: str, **attributes: Any) -> None:
        self._logbook.info("QUERY", message, **self._attributes, **attributes)


def _shown_options(options: ChangeStreamOptions) -> dict[str, Any]:
    return {"options": options.to_spec()} if options.to_spec() else {}
