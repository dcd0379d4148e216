"""Open change streams: `aggregate` with `$changeStream`, and its cursor.

The stages and the event log decide everything about events. This module has the command's arguments, the
waiting, and the log lines and counters of streams.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.options import ChangeStreamOptions
from tailrace.events.scope import Scope, ScopeKind
from tailrace.events.stages.plan import EMIT_FROM_MIGRATE, END_OF_TRANSACTION_FLAG, Plan
from tailrace.events.stages.stage import Row, VerbatimRow
from tailrace.log.event_log import EventLog
from tailrace.log.stream import LogStream
from tailrace.mongod.server.admin.counters import ChangeStreamCounters
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.pacing import SECONDS_AT_ONCE
from tailrace.mongod.server.emulation.release import POST_BATCH_RESUME_TOKEN, Release
from tailrace.mongod.server.reads.batches import (
    DEFAULT_FIRST_BATCH,
    ELEMENT_OVERHEAD,
    MAX_BATCH_BYTES,
    cursor_reply,
)
from tailrace.mongod.server.reads.cursors import CursorBatch
from tailrace.mongod.server.streams.stream_place import place_of_stream
from tailrace.mongod.store.catalog import Catalog
from tailrace.query.expressions.operands import is_string

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

STAGE: Final = "$changeStream"
_UNSTABLE_OPTIONS: Final = ("showExpandedEvents", "showSystemEvents", "showRawUpdateDescription")
_STREAM_UUID_NOT_ALLOWED: Final = 4928900
_ONE_FIELD_PER_STAGE: Final = 40323
_UNCOUNTED: Final = 1 << 31
_LARGE_BATCH: Final = 1 << 18
"""After a batch of this many bytes the next one is prepared while the client reads."""
_BYTES_AHEAD: Final = 1 << 19
"""How much is prepared: little, because many streams may catch up at the same time."""


def is_change_stream(pipeline: object) -> bool:
    """Whether a pipeline, which need not be valid, begins with `$changeStream`."""
    first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
    return isinstance(first, dict) and next(iter(first), None) == STAGE


async def open_change_stream(context: "Context", pipeline: list[dict[str, Any]]) -> Reply:
    """Open a stream and return its first batch, or explain it."""
    node = context.node
    release = node.release
    context.is_change_stream = True
    arguments = context.arguments()
    size = _read_arguments(context, arguments)
    explain = arguments.boolean("explain", False)
    let = arguments.document("let", None)
    collation = arguments.document("collation", None)
    raw_data = arguments.boolean("rawData", False)
    place = place_of_stream(node, arguments)
    arguments.finish()
    if len(pipeline[0]) != 1:
        raise CommandError(
            _ONE_FIELD_PER_STAGE, "a pipeline's stage must be a document with exactly one field"
        )
    spec = pipeline[0][STAGE]
    if not release.is_current:
        release.check_stream(spec, pipeline[1:])
    for_cluster = isinstance(spec, Mapping) and spec.get("allChangesForCluster") is True
    scope = Scope.of(context.database, _collection(context), all_changes_for_cluster=for_cluster)
    _check_api(context, spec)
    plan = Plan.open(
        scope,
        _raw_spec(context) or spec,
        pipeline[1:],
        on_router=place.is_router,
        is_replica_set=place.is_replicated,
        raw_data=raw_data,
        parameters={
            END_OF_TRANSACTION_FLAG: place.parameters[END_OF_TRANSACTION_FLAG],
            EMIT_FROM_MIGRATE: place.parameters[EMIT_FROM_MIGRATE],
        },
        collation=collation,
        let=let,
        release=release.stream,
    )
    _check_target(place.states.catalog, scope, raw_data=raw_data)
    if explain:
        return plan.explain()
    cursor = ChangeStreamCursor(
        place.event_log,
        plan,
        release=release,
        counters=node.counters.change_streams,
        logbook=node.log,
        comment=context.command.get("comment"),
    )
    try:
        batch = await cursor.first_batch(size)
    except BaseException:
        cursor.close()
        raise
    cursor_id = node.cursors.register(context, cursor, batch)
    return cursor_reply("firstBatch", batch, cursor_id, cursor.ns)


def _collection(context: "Context") -> str | None:
    """The collection that the command names; None if it is 1, for the whole database."""
    name = context.command["aggregate"]
    if is_string(name):
        return name
    if isinstance(name, bool) or not isinstance(name, int | float):
        raise CommandError(
            ErrorCode.TypeMismatch, "the field aggregate must be a collection's name, or 1 for a database"
        )
    if name != 1:
        raise CommandError(ErrorCode.BadValue, f"the field aggregate is 1 for a whole database, not {name}")
    return None


def _read_arguments(context: "Context", arguments: Arguments) -> int:
    """Read and check the arguments that all streams have; returns the first batch's size."""
    arguments.ignore("pipeline", "hint", "allowDiskUse", "bypassDocumentValidation", "aggregate")
    cursor = arguments.nested("cursor")
    size = DEFAULT_FIRST_BATCH
    if cursor is not None:
        size = cursor.integer("batchSize", DEFAULT_FIRST_BATCH, minimum=0)
        cursor.finish()
    elif not arguments.has("explain"):
        raise CommandError(
            ErrorCode.FailedToParse,
            "The 'cursor' option is required, except for aggregate with the explain argument",
        )
    if arguments.has("collectionUUID"):
        raise CommandError(_STREAM_UUID_NOT_ALLOWED, "a change stream takes no collectionUUID")
    if arguments.boolean("allowPartialResults", False):
        raise CommandError(ErrorCode.InvalidOptions, "a change stream cannot leave out what is not available")
    if context.in_transaction:
        raise CommandError(
            ErrorCode.OperationNotSupportedInTransaction,
            "$changeStream cannot be used in a multi-document transaction",
        )
    level = context.read_concern.level
    if level not in (None, "majority") or context.read_concern.at_cluster_time is not None:
        raise CommandError(
            ErrorCode.InvalidOptions, f"$changeStream needs the read concern majority, not {level}"
        )
    return size


def _check_api(context: "Context", spec: object) -> None:
    if context.command.get("apiStrict") is True and isinstance(spec, Mapping):
        for option in _UNSTABLE_OPTIONS:
            if option in spec:
                raise CommandError(
                    ErrorCode.APIStrictError, f"the $changeStream option {option} is not in API Version 1"
                )


def _check_target(catalog: Catalog, scope: Scope, *, raw_data: bool) -> None:
    """Refuse streams on views and on time series."""
    if scope.kind is not ScopeKind.COLLECTION:
        return
    ns = f"{scope.db}.{scope.coll}"
    if catalog.view(ns) is not None:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, f"$changeStream cannot watch the view {ns}")
    collection = catalog.collection(ns)
    if collection is not None and collection.is_timeseries and not raw_data:
        raise CommandError(
            ErrorCode.CommandNotSupported, f"$changeStream cannot watch the time series {ns} without rawData"
        )


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
        self._count_opening(plan)

    async def first_batch(self, size: int) -> CursorBatch:
        """The events that are available, without waiting."""
        return self._batch([]) if size == 0 else await self._collect(size)

    async def next_batch(self, size: int | None, wait_ms: int) -> CursorBatch:
        self._stop_work_ahead()
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
        """The available events: as many as fit and can be found in a short time."""
        rows: list[Row | VerbatimRow] = []
        size = MAX_BATCH_BYTES
        stream = self._stream
        pause = 0.0
        while True:
            if stream.must_fetch:
                await stream.fetch()
            try:
                taken = stream.take(
                    limit - len(rows), size, overhead=ELEMENT_OVERHEAD, at_least=0 if rows else 1
                )
            except CommandError as error:
                if rows:
                    break  # these are sent first; the next getMore gets the error again
                self._failed(error)
                raise self._release.stream_error(error) from None
            rows += taken
            if len(rows) >= limit or not stream.is_behind or (rows and stream.holds_rows) or stream.is_done:
                break
            size -= sum([len(row.raw) for row in taken]) + ELEMENT_OVERHEAD * len(taken)
            if monotonic() >= pause:
                if pause and rows:
                    break  # the client can begin to read, and requests the rest afterwards
                if pause:
                    await asyncio.sleep(0)
                pause = monotonic() + SECONDS_AT_ONCE
        if stream.is_behind and sum([len(row.raw) for row in rows]) >= _LARGE_BATCH:
            # While the client reads, the next batch is prepared.
            self._ahead = asyncio.get_running_loop().create_task(self._work_ahead())
        return self._batch(rows)

    async def _work_ahead(self) -> None:
        """Prepare a part of the next batch, pausing for everything else."""
        stream = self._stream
        await asyncio.sleep(0)
        if stream.must_fetch:
            await stream.fetch()
        while stream.work_ahead(_BYTES_AHEAD):
            await asyncio.sleep(0)
            if stream.must_fetch:
                await stream.fetch()

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
