"""Plan an aggregation: its source, its stages, and its output."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import PAUSE, MergeTarget, OutTarget, PipelineContext
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.cursor import ResultCursor
from tailrace.mongod.server.reads.named_collections import check_named_collections
from tailrace.mongod.server.reads.output import check_output
from tailrace.mongod.server.reads.pipelines import PlannedPipeline, plan_pipeline
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.requests.aggregate_request import AggregateRequest
from tailrace.mongod.server.reads.services import ReadServices
from tailrace.mongod.server.reads.targets import Target, resolve_named
from tailrace.mongod.store.catalog import Index
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.pacing import tick

_COLLECTIONLESS = "$cmd.aggregate"


@dataclass(frozen=True, slots=True)
class PlannedAggregate:
    target: Target
    request: AggregateRequest
    planned: PlannedPipeline

    @property
    def ns(self) -> str:
        """The name that replies show."""
        return self.target.ns

    @property
    def is_of_nothing(self) -> bool:
        """Never: an aggregation on a collection that does not exist is an ordinary one."""
        return False

    @property
    def output(self) -> OutTarget | MergeTarget | None:
        """The target of `$out` or `$merge`, if there is one."""
        return self.planned.pipeline.output

    @property
    def summary(self) -> str:
        """The plan in a few words."""
        return "EOF" if self.planned.path is None else self.planned.path.summary

    @property
    def index(self) -> Index | None:
        """The index that is read, if there is one."""
        return None if self.planned.path is None else self.planned.path.index_used

    def cursor(self, context: Context, state: ReadState) -> ResultCursor:  # noqa: ARG002
        """A cursor over the results."""
        results = (row if row is PAUSE else row.raw for row in self.planned.rows(state))
        return ResultCursor(self.ns, state, results)

    async def write(self, context: Context, state: ReadState) -> None:
        """Compute all results and write them to the output."""
        output = self.output
        assert output is not None
        if not context.node.replication.is_primary:
            raise CommandError(ErrorCode.NotWritablePrimary, "not primary")
        check_output(context.node.states.catalog, output)
        documents = _results(self.planned.rows(state))
        bypasses = self.request.bypasses_validation
        await context.node.results.write(context, output, documents, bypasses_validation=bypasses)


def writes_results(pipeline: list[dict[str, Any]]) -> bool:
    """Whether a pipeline, which need not be valid, ends in a stage that writes."""
    return bool(pipeline) and not pipeline[-1].keys().isdisjoint(("$out", "$merge"))


def _results(rows: Rows) -> Iterator[bytes]:
    for row in rows:
        if row is PAUSE:
            tick()
        else:
            yield row.raw


def plan_aggregate(
    context: Context, state: ReadState, request: AggregateRequest, variables: Mapping[str, Any]
) -> PlannedAggregate:
    """Compile a pipeline and choose its access path; raises for every fault of it."""
    catalog = state.reader.catalog
    if request.named is None:
        target = Target(context.database, _COLLECTIONLESS, None)
    else:
        target = resolve_named(catalog, context.database, request.named)
        check_uuid(catalog, context.database, target.name, request.collection_uuid)
    if context.in_transaction or context.read_concern.level == "snapshot":
        # Whether they can be read at that time is checked even if no document needs them.
        check_named_collections(catalog, context.database, request.pipeline)
    collation = target.collation(request.collation)
    memory = context.node.memory.of_command(may_use_disk=request.allow_disk_use)
    state.on_close.append(memory.close)
    inner = PipelineContext(
        context.database,
        None if request.named is None else target.name,
        variables,
        collation,
        ReadServices(context, state, variables, memory),
        in_transaction=context.in_transaction,
        has_stage=context.node.release.has_stage,
        dialect=context.node.release.stream.dialect,
        search_error=context.node.release.search_error,
        memory=memory,
    )
    planned = plan_pipeline(
        state, target, request.pipeline, inner, collation, request.hint, raw_data=request.raw_data
    )
    return PlannedAggregate(target, request, planned)
