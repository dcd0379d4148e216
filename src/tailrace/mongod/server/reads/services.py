"""What the stages of a pipeline read besides their input."""

from collections.abc import Iterable, Mapping
from typing import Any

from tailrace.mongod.language.aggregation import PAUSE, Pause, PipelineContext
from tailrace.mongod.language.aggregation.memory.budget import StageMemory
from tailrace.mongod.language.aggregation.rows import Document
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.access.access_paths import CollectionScan, IndexScan
from tailrace.mongod.server.reads.access.planner import Wanted, choose_access, choose_read
from tailrace.mongod.server.reads.pipelines import plan_pipeline
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.sources import server_source
from tailrace.mongod.server.reads.targets import Target, resolve


class ReadServices:
    """Other collections in the pipeline's state, and documents about the server."""

    def __init__(
        self,
        context: Context,
        state: ReadState,
        variables: Mapping[str, Any],
        memory: StageMemory,
    ) -> None:
        self._context = context
        self._memory = memory
        self._state = state
        self._variables = variables

    def documents(self, database: str, collection: str) -> Iterable[bytes | Pause]:
        target = self._resolve(database, collection)
        if target.collection is None:
            return ()
        if target.view is None:
            return self._state.documents(choose_read(self._state.reader, target.collection, Wanted({})))
        collation = target.collation(None)
        context = pipeline_context(self._context, target, self._variables, self, collation, self._memory)
        planned = plan_pipeline(self._state, target, (), context, collation)
        return (row if row is PAUSE else row.raw for row in planned.rows(self._state))

    def equal_documents(
        self, database: str, collection: str, path: str, value: Any
    ) -> Iterable[bytes | Pause] | None:
        target = self._resolve(database, collection)
        if target.collection is None:
            return ()
        if target.view is not None or target.collection.is_timeseries:
            return None
        found = choose_access(self._state.reader, target.collection, Wanted({path: {"$eq": value}}))
        is_whole = isinstance(found, CollectionScan) or (
            isinstance(found, IndexScan) and not found.is_bounded
        )
        return None if is_whole else self._state.documents(found)

    def source(
        self, name: str, spec: Any, database: str, collection: str | None
    ) -> Iterable[Document | Pause]:
        return server_source(self._context, self._state, name, spec, database, collection)

    def _resolve(self, database: str, collection: str) -> Target:
        return resolve(self._state.reader.catalog, database, collection)


def pipeline_context(
    context: Context,
    target: Target,
    variables: Mapping[str, Any],
    services: ReadServices,
    collation: Any,
    memory: StageMemory,
) -> PipelineContext:
    """The context in which a pipeline on a collection or view is compiled."""
    return PipelineContext(
        target.database,
        target.name,
        variables,
        collation,
        services,
        in_transaction=context.in_transaction,
        has_stage=context.node.release.has_stage,
        dialect=context.node.release.stream.dialect,
        search_error=context.node.release.search_error,
        memory=memory,
    )
