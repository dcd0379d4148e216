"""Plan a find: its access path and its cursor."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.budget import StageMemory
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.access.access_paths import AccessPath, CollectionScan, NoAccess
from tailrace.mongod.server.reads.access.planner import NATURAL, choose_read
from tailrace.mongod.server.reads.cursor import ResultCursor, TailableCursor
from tailrace.mongod.server.reads.execution import Query, Window, matching_rows
from tailrace.mongod.server.reads.pipelines import PlannedPipeline, plan_pipeline
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.requests.find_request import FindRequest
from tailrace.mongod.server.reads.scan_cursor import ScanCursor
from tailrace.mongod.server.reads.services import ReadServices, pipeline_context
from tailrace.mongod.server.reads.targets import Target, resolve_named
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.ddl.lookup import check_uuid


@dataclass(frozen=True, slots=True)
class PlannedFind:
    target: Target
    query: Query
    path: AccessPath | None
    """None for a view, and if there is nothing to read."""
    memory: StageMemory
    view: PlannedPipeline | None = None

    @property
    def is_of_nothing(self) -> bool:
        """Whether the collection does not exist."""
        return self.target.collection is None and self.target.view is None

    @property
    def summary(self) -> str:
        """The plan in a few words."""
        path = self.path if self.view is None else self.view.path
        return "EOF" if path is None else path.summary

    @property
    def index(self) -> Index | None:
        """The index that is read, if there is one."""
        path = self.path if self.view is None else self.view.path
        return None if path is None else path.index_used

    def rows(self, state: ReadState) -> Rows:
        """The documents that match, in the order they are found."""
        if self.view is not None:
            return self.view.rows(state)
        matcher = self.query.matcher if self.query.request.query else None
        return iter(()) if self.path is None else matching_rows(state, self.path, matcher)

    def cursor(self, context: Context, state: ReadState) -> ScanCursor | ResultCursor | TailableCursor:
        """A cursor over the results."""
        request = self.query.request
        window = Window(request.skip, request.limit)
        if not request.tailable or self.path is None:
            return self._cursor(state, window)
        return TailableCursor(
            context.node.followed_store(self.target.ns),
            lambda: self._cursor(state, window),
            window.progress,
            is_await=request.await_data,
        )

    def _cursor(self, state: ReadState, window: Window) -> ScanCursor | ResultCursor:
        query, request, path = self.query, self.query.request, self.path
        ns = self.target.ns
        keeps_count = request.tailable and request.limit
        if (
            isinstance(path, CollectionScan)
            and path.is_whole
            and query.is_plain
            and query.is_sorted_by(path)
            and not keeps_count
        ):
            matcher = query.matcher if request.query and not path.is_exact else None
            projection = None if query.projection is None else query.projection.on_bytes
            return ScanCursor(ns, state, path, matcher=matcher, projection=projection, limit=request.limit)
        results = query.results(self.rows(state), path, window, self.memory)
        return ResultCursor(ns, state, results, window.progress)


def plan_find(
    context: Context, state: ReadState, named: object, request: FindRequest, variables: Mapping[str, Any]
) -> PlannedFind:
    """Compile a find and choose its access path; raises for every fault of it.

    ``named`` is the name of the collection or its UUID.
    """
    catalog = state.reader.catalog
    target = resolve_named(catalog, context.database, named)
    check_uuid(catalog, context.database, target.name, request.collection_uuid)
    query = Query.compile(
        request,
        variables=variables,
        collation=target.collation(request.collation),
        dialect=context.node.release.stream.dialect,
    )
    memory = context.node.memory.of_command(may_use_disk=request.allow_disk_use)
    state.on_close.append(memory.close)
    if target.view is not None:
        _check_view(request)
        services = ReadServices(context, state, variables, memory)
        inner = pipeline_context(context, target, variables, services, query.collation, memory)
        own = [{"$match": request.query}] if request.query else []
        view = plan_pipeline(state, target, own, inner, query.collation, request.hint)
        return PlannedFind(target, query, None, memory, view)
    collection = target.collection
    if collection is None:
        return PlannedFind(target, query, None, memory)
    if request.tailable:
        _check_tailable(collection)
        if not state.reader.count(collection)[0]:
            # An empty collection has no position to follow, so the cursor ends at once.
            return PlannedFind(target, query, None, memory)
    wanted = replace(query.wanted, hint={NATURAL: 1}) if request.tailable else query.wanted
    path = choose_read(state.reader, collection, wanted, raw_data=request.raw_data)
    return PlannedFind(target, query, None if isinstance(path, NoAccess) else path, memory)


def _check_tailable(collection: Collection) -> None:
    if not collection.is_capped and collection.table != "oplog":
        reason = (
            f"error processing query: ns={collection.ns} tailable cursor requested on non capped collection"
        )
        raise CommandError(ErrorCode.BadValue, reason)


def _check_view(request: FindRequest) -> None:
    """Refuse options that concern records, which a view does not have."""
    given = {
        "tailable": request.tailable,
        "returnKey": request.return_key,
        "showRecordId": request.show_record_id,
        "min": request.min_key is not None,
        "max": request.max_key is not None,
    }
    for name, is_given in given.items():
        if is_given:
            reason = f"Option {name} not supported in aggregation."
            raise CommandError(ErrorCode.InvalidPipelineOperator, reason)
