"""Plan pipelines on collections and views: an access path for the first stages, and the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation import (
    MergeTarget,
    OutTarget,
    Pipeline,
    PipelineContext,
    compile_pipeline,
)
from tailrace.mongod.language.aggregation.compile import leading_match
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.server.reads.access.access_paths import AccessPath
from tailrace.mongod.server.reads.access.planner import Wanted, choose_read
from tailrace.mongod.server.reads.execution import matching_rows
from tailrace.mongod.server.reads.named_collections import named_collections
from tailrace.mongod.server.reads.output import check_output
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.targets import Target, check_same_collation
from tailrace.mongod.store.catalog import Catalog
from tailrace.query.collation import Collation
from tailrace.query.match import Matcher, compile_match
from tailrace.query.sorting import compile_sort


@dataclass(frozen=True, slots=True)
class PlannedPipeline:
    """A pipeline and its access path."""

    pipeline: Pipeline
    path: AccessPath | None
    """None if it reads no collection, or one that does not exist."""
    matcher: Matcher | None
    query: Mapping[str, Any]
    """The first `$match` stages, which are checked while reading."""
    done: int
    """Number of stages that reading replaces."""

    def rows(self, state: ReadState) -> Rows:
        """The results; to be iterated within batches of the state."""
        if self.path is None:
            return self.pipeline.rows(iter(()))
        rest = replace(self.pipeline, stages=self.pipeline.stages[self.done :])
        return rest.rows(matching_rows(state, self.path, self.matcher))


def plan_pipeline(
    state: ReadState,
    target: Target,
    stages: Sequence[Any],
    context: PipelineContext,
    collation: Collation | None,
    hint: Any = None,
    *,
    raw_data: bool = False,
) -> PlannedPipeline:
    """Compile the stages after those of the target's view, and choose the access path."""
    all_stages = target.pipeline_of(stages)
    compiled = compile_pipeline(all_stages, context)
    catalog, output = state.reader.catalog, compiled.output
    for name in named_collections(list(all_stages)):
        check_same_collation(catalog, f"{target.database}.{name}", collation)
    if output is not None:
        _check_target(catalog, output, collation)
    collection = target.collection
    if collection is None or not compiled.reads_collection:
        return PlannedPipeline(compiled, None, None, {}, 0)
    query, rest = leading_match(all_stages)
    done = len(all_stages) - len(rest)
    sort = rest[0].get("$sort", {}) if rest else {}
    wanted = Wanted(
        query, sort, compile_sort(sort, collation) if sort else None, hint=hint, collation=collation
    )
    path = choose_read(state.reader, collection, wanted, raw_data=raw_data)
    matcher = None
    if query:
        matcher = compile_match(
            query,
            variables=context.variables,
            collation=collation,
            dialect=context.dialect,
        )
    return PlannedPipeline(compiled, path, matcher, query, done + 1 if sort and path.is_ordered else done)


def _check_target(catalog: Catalog, output: OutTarget | MergeTarget, collation: Collation | None) -> None:
    """Refuse a target as a mongod does while it reads the pipeline."""
    try:
        if isinstance(output, MergeTarget):
            check_output(catalog, output)
        check_same_collation(catalog, f"{output.database}.{output.collection}", collation)
    except CommandError as error:
        # The results are written to the newest state: it does not matter that a past one lacks the target.
        if error.code != ErrorCode.SnapshotUnavailable:
            raise
