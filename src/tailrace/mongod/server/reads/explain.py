"""Describe how reads are run, for the command `explain`."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import PAUSE
from tailrace.mongod.language.aggregation.memory.budget import ROW_OVERHEAD
from tailrace.mongod.language.aggregation.rows import FoundRow
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.emulation.release import EXPRESS_PLANS, Release
from tailrace.mongod.server.emulation.version import GIT_VERSION
from tailrace.mongod.server.reads.access.access_paths import AccessPath
from tailrace.mongod.server.reads.aggregating import PlannedAggregate, plan_aggregate
from tailrace.mongod.server.reads.distinct_values import DistinctValues
from tailrace.mongod.server.reads.explained.counting import counting_scan, distinct_scan
from tailrace.mongod.server.reads.explained.figures import Run, figures
from tailrace.mongod.server.reads.explained.filters import parsed
from tailrace.mongod.server.reads.explained.plans import Access, Stage, access, decided_filter, find_plan
from tailrace.mongod.server.reads.explained.pushed_down import as_find
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.reading import PlannedFind, plan_find
from tailrace.mongod.server.reads.requests.aggregate_request import AggregateRequest
from tailrace.mongod.server.reads.requests.find_request import FindRequest
from tailrace.mongod.server.reads.requests.variables import read_variables
from tailrace.pacing import tick
from tailrace.query.collation import Collation
from tailrace.query.match import Matcher, compile_match

QUERY_PLANNER: Final = "queryPlanner"
_ALL_PLANS: Final = "allPlansExecution"
VERBOSITIES: Final = (QUERY_PLANNER, "executionStats", _ALL_PLANS)
_LIMITS: Final = dict.fromkeys(
    ("maxIndexedOrSolutionsReached", "maxIndexedAndSolutionsReached", "maxScansToExplodeReached"), False
)
_SERVER_PARAMETERS: Final[Mapping[str, int]] = {
    "internalQueryFacetBufferSizeBytes": 104_857_600,
    "internalQueryFacetMaxOutputDocSizeBytes": 104_857_600,
    "internalLookupStageIntermediateDocumentMaxSizeBytes": 104_857_600,
    "internalDocumentSourceGroupMaxMemoryBytes": 104_857_600,
    "internalQueryMaxBlockingSortMemoryUsageBytes": 104_857_600,
    "internalQueryProhibitBlockingMergeOnMongoS": 0,
    "internalQueryMaxAddToSetBytes": 104_857_600,
    "internalDocumentSourceSetWindowFieldsMaxMemoryBytes": 104_857_600,
}
"""The limits of a mongod, which explain always names."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a command does with the documents that it finds."""

    stage: str | None = None
    """The stage that counts or changes them."""
    is_count: bool = False
    is_fast_count: bool = False
    skipped: int = 0
    most: int | None = None
    """How many documents a count has to find."""
    upserts: bool = False
    returns_document: bool = False
    distinct_key: str | None = None


_FINDING: Final = Purpose()


async def explain_find(
    context: Context, named: object, request: FindRequest, verbosity: str, purpose: Purpose = _FINDING
) -> dict[str, Any]:
    """Explain a find, or a command that begins with one."""
    state = await ReadState.of(context)
    try:
        with state.batch():
            planned = plan_find(context, state, named, request, read_variables(context, request.let))
            if planned.view is not None:
                return await _view_explained(context, state, planned, verbosity)
            shown = await _find_explained(context, state, planned, verbosity, purpose)
    finally:
        state.close()
    return explanation(context, shown)


async def explain_aggregate(context: Context, request: AggregateRequest, verbosity: str) -> dict[str, Any]:
    """Explain an aggregation, without writing its output."""
    state = await ReadState.of(context)
    try:
        with state.batch():
            planned = plan_aggregate(context, state, request, read_variables(context, request.let))
            shown = await _pipeline_explained(context, state, planned, verbosity)
    finally:
        state.close()
    return explanation(context, shown)


async def _find_explained(
    context: Context,
    state: ReadState,
    planned: PlannedFind,
    verbosity: str,
    purpose: Purpose,
    *,
    is_pipeline: bool = False,
) -> dict[str, Any]:
    request, path, release = planned.query.request, planned.path, context.node.release
    is_plain = not (request.skip or request.hint or request.return_key or request.show_record_id)
    collation = planned.query.collation
    found = access(path, request.query, collation, state.reader, release, is_plain=is_plain)
    plan, run = _plan(state, planned, found, purpose)
    is_simple_write = purpose.stage is not None and not purpose.is_count and _is_lookup(found)
    query = None if purpose.is_fast_count or is_simple_write else request.query
    shown: dict[str, Any] = {
        "queryPlanner": _query_planner(
            planned.target.ns,
            query,
            request,
            plan,
            release,
            has_shape=path is not None,
            is_pipeline=is_pipeline,
        )
    }
    if verbosity != QUERY_PLANNER:
        started = time.monotonic()
        needs_sort = "SORT" in _names(plan)
        most = purpose.most
        if most is None and request.limit and not needs_sort:
            most = request.skip + request.limit
        matcher = planned.query.matcher if request.query else None
        values = _values(plan, purpose, collation)
        await _execute(state, path, found, matcher, run, most, collation, values)
        run.milliseconds = int((time.monotonic() - started) * 1000)
        _finish(run, planned, purpose, state)
        shown["executionStats"] = _execution_stats(plan, run, verbosity)
    return shown


def _names(plan: Stage) -> list[str]:
    return [plan.name, *([] if plan.source is None else _names(plan.source))]


def _is_lookup(found: Access) -> bool:
    return found.scan.name in ("IDHACK", "EXPRESS_IXSCAN")


def _plan(state: ReadState, planned: PlannedFind, found: Access, purpose: Purpose) -> tuple[Stage, Run]:
    """The stages, and an empty account of their run."""
    request, path = planned.query.request, planned.path
    run = Run(returns_document=purpose.returns_document, may_use_disk=planned.memory.may_use_disk)
    collection = planned.target.collection
    if purpose.is_fast_count and collection is not None:
        return Stage("RECORD_STORE_FAST_COUNT"), run
    if purpose.distinct_key is not None and collection is not None:
        scan = distinct_scan(state.reader, collection, path, found, request, purpose.distinct_key)
        if scan is not None:
            return Stage("PROJECTION_COVERED", {"transformBy": {}}, source=scan), run
    needs_sort = planned.query.ordering is not None and path is not None and not path.is_ordered
    scan = counting_scan(found) if purpose.is_count else None
    if scan is None:
        keeps_limit = purpose.stage is None or bool(request.sort)
        scan = find_plan(
            found,
            request,
            needs_sort=needs_sort,
            keeps_limit=keeps_limit,
            is_write=purpose.stage is not None,
            sort_memory=planned.memory.limits.sort,
        )
    return (scan if purpose.stage is None else Stage(purpose.stage, source=scan)), run


def _values(plan: Stage, purpose: Purpose, collation: Collation | None) -> DistinctValues | None:
    if purpose.distinct_key is None or "DISTINCT_SCAN" not in _names(plan):
        return None
    string_key = None if collation is None else collation.string_key
    return DistinctValues(purpose.distinct_key, string_key, from_index=True)


async def _execute(
    state: ReadState,
    path: AccessPath | None,
    found: Access,
    matcher: Matcher | None,
    run: Run,
    most: int | None,
    collation: Collation | None,
    values: DistinctValues | None = None,
) -> None:
    """Read what the plan reads, and count it."""
    if path is None:
        return
    decided = decided_filter(found)
    in_bounds = compile_match(decided, collation=collation) if decided else None
    for record in state.records(path):
        if record is PAUSE:
            tick()
            continue
        row = FoundRow(*record)
        if in_bounds is not None and not in_bounds(row.document):
            continue
        run.documents += 1
        if matcher is None or path.is_exact or matcher(row.document):
            run.matched += 1
            run.matched_bytes += len(row.stored) + ROW_OVERHEAD
            if values is not None:
                values.add(row.document)
            if run.matched == most:
                run.is_exhausted = False
                break
    run.keys = run.documents if found.has_a_key_for_each else path.keys_examined
    if values is not None:
        run.matched = len(values.found)


def _finish(run: Run, planned: PlannedFind, purpose: Purpose, state: ReadState) -> None:
    run.upserts = int(purpose.upserts and not run.matched)
    run.counted = max(0, run.matched - purpose.skipped)
    if purpose.is_fast_count and planned.target.collection is not None:
        run.counted = state.reader.count(planned.target.collection)[0]


async def _view_explained(
    context: Context, state: ReadState, planned: PlannedFind, verbosity: str
) -> dict[str, Any]:
    """A find on a view, as a pipeline of the view's stages and its own."""
    request = planned.query.request
    stages: list[dict[str, Any]] = []
    for name, value in (
        ("$match", request.query), ("$sort", request.sort), ("$skip", request.skip),
        ("$limit", request.limit), ("$project", request.projection),
    ):  # fmt: skip
        if value:
            stages.append({name: value})
    aggregate = AggregateRequest(
        named=planned.target.name, pipeline=stages, explain=True, hint=request.hint, let=request.let
    )
    inner = plan_aggregate(context, state, aggregate, read_variables(context, request.let))
    shown = await _pipeline_explained(context, state, inner, verbosity)
    return explanation(context, shown)


async def _pipeline_explained(
    context: Context, state: ReadState, planned: PlannedAggregate, verbosity: str
) -> dict[str, Any]:
    pipeline = planned.planned
    path = pipeline.path
    stages = list(planned.target.pipeline_of(planned.request.pipeline))
    as_one = _planned_find(context, state, planned, stages)
    if as_one is not None:
        return await _find_explained(context, state, as_one, verbosity, _FINDING, is_pipeline=True)
    rest = stages if path is None else stages[pipeline.done :]
    if path is None and not pipeline.pipeline.reads_collection:
        return {"stages": rest}
    release = context.node.release
    collation = planned.target.collation(planned.request.collation)
    found = access(path, pipeline.query, collation, state.reader, release)
    plan = find_plan(found, FindRequest(query=dict(pipeline.query)), needs_sort=False)
    ns = planned.ns if planned.target.collection is None else planned.target.collection.ns
    request = FindRequest(query=dict(pipeline.query))
    cursor: dict[str, Any] = {
        "queryPlanner": _query_planner(
            ns, request.query, request, plan, release, has_shape=path is not None, is_pipeline=False
        )
    }
    first: dict[str, Any] = {"$cursor": cursor}
    if verbosity != QUERY_PLANNER and planned.output is None:
        run = Run()
        started = time.monotonic()
        await _execute(state, path, found, pipeline.matcher, run, None, collation)
        run.milliseconds = int((time.monotonic() - started) * 1000)
        cursor["executionStats"] = _execution_stats(plan, run, verbosity)
        first |= {
            "nReturned": cursor["executionStats"]["nReturned"],
            "executionTimeMillisEstimate": run.milliseconds,
        }
    return {"stages": [first, *rest]} if rest else cursor


def _planned_find(
    context: Context, state: ReadState, planned: PlannedAggregate, stages: list[Any]
) -> PlannedFind | None:
    """The plan of a find that does the same; None if there is none."""
    collection = planned.target.collection
    if planned.output is not None or collection is None or collection.is_timeseries:
        return None
    request = as_find(stages, planned.request)
    if request is None or not planned.planned.pipeline.reads_collection:
        return None
    try:
        found = plan_find(context, state, collection.name, request, read_variables(context, request.let))
    except CommandError:
        return None  # a projection that only pipelines know
    return replace(found, target=replace(found.target, name=collection.name))


def _query_planner(
    ns: str,
    query: Mapping[str, Any] | None,
    request: FindRequest,
    plan: Stage,
    release: Release,
    *,
    has_shape: bool,
    is_pipeline: bool,
) -> dict[str, Any]:
    shown: dict[str, Any] = {"namespace": ns}
    is_new = release.has(EXPRESS_PLANS)
    filters = {} if query is None else {"parsedQuery": parsed(query)}
    shown |= {**filters, "indexFilterSet": False} if is_new else {"indexFilterSet": False, **filters}
    if query is not None and has_shape:
        shape = _hash(parsed(query), request.sort, request.projection)
        names = {"queryHash": shape, "planCacheShapeHash": shape} if is_new else {"queryHash": shape}
        shown |= {**names, "planCacheKey": _hash(shape, plan.shown.get("indexName", ""))}
        if is_new:
            shown["optimizationTimeMillis"] = 0
    if is_pipeline:
        shown["optimizedPipeline"] = True
    shown |= _LIMITS
    if is_new:
        shown["prunedSimilarIndexes"] = False
    winning = {"isCached": False, **plan.shown} if is_new else plan.shown
    return shown | {"winningPlan": winning, "rejectedPlans": []}


def _hash(*parts: Any) -> str:
    return hashlib.sha256(repr([_shape(part) for part in parts]).encode()).hexdigest()[:8].upper()


def _shape(value: Any) -> Any:
    """A filter without its values."""
    if isinstance(value, Mapping):
        return [(name, _shape(inner)) for name, inner in value.items()]
    if isinstance(value, list):
        return [_shape(item) for item in value if isinstance(item, Mapping)]
    return value if isinstance(value, str) and len(value) == 8 else type(value).__name__


def _execution_stats(plan: Stage, run: Run, verbosity: str) -> dict[str, Any]:
    counted = figures(plan, run)
    stats: dict[str, Any] = {
        "executionSuccess": True,
        "nReturned": counted.returned,
        "executionTimeMillis": run.milliseconds,
        "totalKeysExamined": counted.keys,
        "totalDocsExamined": counted.documents,
        "executionStages": counted.shown,
    }
    if verbosity == _ALL_PLANS:
        stats["allPlansExecution"] = []
    return stats


def explanation(context: Context, shown: dict[str, Any]) -> dict[str, Any]:
    """A whole reply: plan or stages, the command, and the server."""
    host, _, port = context.node.address.rpartition(":")
    explained = context.command.get("explain")
    command = explained if isinstance(explained, dict) else context.command
    fields = {name: value for name, value in command.items() if not name.startswith("$") and name != "lsid"}
    echoed = {"command": {**fields, "$db": context.database}}
    server = {
        "serverInfo": {
            "host": host,
            "port": int(port),
            "version": context.node.release.version,
            "gitVersion": GIT_VERSION,
        },
        "serverParameters": dict(_SERVER_PARAMETERS),
    }
    parts = (server, echoed) if "stages" in shown else (echoed, server)
    return {"explainVersion": "1", **shown, **parts[0], **parts[1]}
