"""Describe how reads are run, for the command `explain`."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bson import Int64

from tailrace.mongod.language.aggregation import PAUSE, Pause
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.emulation.version import GIT_VERSION
from tailrace.mongod.server.reads.access.access_paths import AccessPath
from tailrace.mongod.server.reads.aggregating import PlannedAggregate, plan_aggregate
from tailrace.mongod.server.reads.execution import Window
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.reading import PlannedFind, plan_find
from tailrace.mongod.server.reads.requests.aggregate_request import AggregateRequest
from tailrace.mongod.server.reads.requests.find_request import FindRequest
from tailrace.mongod.server.reads.requests.variables import read_variables

QUERY_PLANNER: Final = "queryPlanner"
_ALL_PLANS: Final = "allPlansExecution"
VERBOSITIES: Final = (QUERY_PLANNER, "executionStats", _ALL_PLANS)
_SORT_MEMORY: Final = 104_857_600


async def explain_find(
    context: Context,
    named: object,
    request: FindRequest,
    verbosity: str,
    wrap: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Explain a find, count or distinct; ``wrap`` is the stage of the command around the find."""
    state = await ReadState.of(context)
    try:
        with state.batch():
            planned = plan_find(context, state, named, request, read_variables(context, request.let))
            if planned.view is not None:
                return await _view_explained(context, state, planned, verbosity)
            plan = _find_plan(planned)
            if wrap is not None:
                plan = {**wrap, "inputStage": plan}
            shown: dict[str, Any] = {
                "explainVersion": "1",
                "queryPlanner": _query_planner(planned.target.ns, request.query, plan),
            }
            if verbosity != QUERY_PLANNER:
                window = Window(request.skip, request.limit)
                found = planned.query.results(planned.rows(state), planned.path, window)
                counted = await _counted(found)
                shown["executionStats"] = _execution_stats(planned.path, plan, counted, verbosity)
    finally:
        state.close()
    return shown | about_server(context)


async def explain_aggregate(context: Context, request: AggregateRequest, verbosity: str) -> dict[str, Any]:
    """Explain an aggregation, without writing its output."""
    state = await ReadState.of(context)
    try:
        with state.batch():
            planned = plan_aggregate(context, state, request, read_variables(context, request.let))
            shown = await _pipeline_explained(state, planned, verbosity)
    finally:
        state.close()
    return shown | about_server(context)


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
    return await _pipeline_explained(state, inner, verbosity) | about_server(context)


async def _pipeline_explained(state: ReadState, planned: PlannedAggregate, verbosity: str) -> dict[str, Any]:
    pipeline = planned.planned
    path = pipeline.path
    plan = {"stage": "EOF"} if path is None else path.describe({} if path.is_exact else pipeline.query)
    stages = list(planned.target.pipeline_of(planned.request.pipeline))
    rest = stages if path is None else stages[pipeline.done :]
    cursor: dict[str, Any] = {"queryPlanner": _query_planner(planned.ns, pipeline.query, plan)}
    if verbosity != QUERY_PLANNER and planned.output is None:
        counted = await _counted(row if row is PAUSE else row.raw for row in pipeline.rows(state))
        cursor["executionStats"] = _execution_stats(path, plan, counted, verbosity)
    shown: dict[str, Any] = {"explainVersion": "1"}
    if not rest:
        return shown | cursor
    if path is None and not pipeline.pipeline.reads_collection:
        return shown | {"stages": rest}
    return shown | {"stages": [{"$cursor": cursor}, *rest]}


def _query_planner(ns: str, query: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "namespace": ns,
        "parsedQuery": dict(query),
        "indexFilterSet": False,
        "maxIndexedOrSolutionsReached": False,
        "maxIndexedAndSolutionsReached": False,
        "maxScansToExplodeReached": False,
        "prunedSimilarIndexes": False,
        "winningPlan": {"isCached": False, **plan},
        "rejectedPlans": [],
    }


def _find_plan(planned: PlannedFind) -> dict[str, Any]:
    query, request, path = planned.query, planned.query.request, planned.path
    if path is None:
        return {"stage": "EOF"}
    plan = path.describe({} if path.is_exact else request.query)
    if query.ordering is not None and not path.is_ordered:
        sort: dict[str, Any] = {
            "stage": "SORT",
            "sortPattern": request.sort,
            "memLimit": _SORT_MEMORY,
            "type": "simple",
        }
        if request.limit:
            sort["limitAmount"] = request.skip + request.limit
        plan = {**sort, "inputStage": plan}
    if query.projection is not None:
        is_simple = query.projection.on_bytes is not None
        stage = "PROJECTION_SIMPLE" if is_simple else "PROJECTION_DEFAULT"
        plan = {"stage": stage, "transformBy": request.projection, "inputStage": plan}
    if request.skip:
        plan = {"stage": "SKIP", "skipAmount": request.skip, "inputStage": plan}
    if request.limit:
        plan = {"stage": "LIMIT", "limitAmount": request.limit, "inputStage": plan}
    return plan


class _Counted:
    """The number of results, and the time they took."""

    def __init__(self) -> None:
        self.results = 0
        self.started = time.monotonic()

    @property
    def milliseconds(self) -> int:
        return int((time.monotonic() - self.started) * 1000)


async def _counted(results: Iterable[bytes | Pause]) -> _Counted:
    counted = _Counted()
    for item in results:
        if item is PAUSE:
            await asyncio.sleep(0)
        else:
            counted.results += 1
    return counted


def _execution_stats(
    path: AccessPath | None, plan: Mapping[str, Any], counted: _Counted, verbosity: str
) -> dict[str, Any]:
    stats: dict[str, Any] = {
        "executionSuccess": True,
        "nReturned": counted.results,
        "executionTimeMillis": counted.milliseconds,
        "totalKeysExamined": 0 if path is None else path.keys_examined,
        "totalDocsExamined": 0 if path is None else path.documents_examined,
        "executionStages": _with_counts(plan, path, counted),
    }
    if verbosity == _ALL_PLANS:
        stats["allPlansExecution"] = []
    return stats


def _with_counts(plan: Mapping[str, Any], path: AccessPath | None, counted: _Counted) -> dict[str, Any]:
    """The stages with their counts, which are known at the top and where documents are read."""
    shown = {name: value for name, value in plan.items() if name != "inputStage"}
    shown |= {"nReturned": counted.results, "executionTimeMillisEstimate": Int64(counted.milliseconds)}
    stage = plan["stage"]
    if path is not None and (stage in ("FETCH", "COLLSCAN") or "EXPRESS" in stage or "CLUSTERED" in stage):
        shown["docsExamined"] = path.documents_examined
    if path is not None and "IXSCAN" in stage:
        shown |= {"keysExamined": path.keys_examined, "nReturned": path.keys_examined}
    if "inputStage" in plan:
        shown["inputStage"] = _with_counts(plan["inputStage"], path, counted)
    return shown


def about_server(context: Context) -> dict[str, Any]:
    """The fields that end every explanation."""
    host, _, port = context.node.address.rpartition(":")
    command = context.command.get("explain", context.command)
    shown = command if isinstance(command, dict) else context.command
    return {
        "command": {
            **{name: value for name, value in shown.items() if not name.startswith("$") and name != "lsid"},
            "$db": context.database,
        },
        "serverInfo": {
            "host": host,
            "port": int(port),
            "version": context.node.release.version,
            "gitVersion": GIT_VERSION,
        },
    }
