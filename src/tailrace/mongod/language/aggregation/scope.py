"""The context that a pipeline and its stages are compiled in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tailrace.bson.compare import StringKey
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.budget import StageMemory
from tailrace.mongod.language.aggregation.pipeline import Namespace, Pipeline
from tailrace.mongod.language.aggregation.rows import Document
from tailrace.mongod.language.aggregation.services import NoServices, Services
from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.scope import Collating
from tailrace.query.reshape.stage import StageContext

_MAX_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """The context of a pipeline."""

    database: str
    collection: str | None
    """None for ``{aggregate: 1}``, where the first stage supplies the documents"""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The variables: ``NOW``, ``CLUSTER_TIME``, and the command's ``let``"""
    collation: Collating | None = None
    services: Services = field(default_factory=NoServices)
    in_transaction: bool = False
    has_stage: Callable[[str], bool] = lambda _name: True
    """Whether the release that is imitated has a stage of this name"""
    search_error: int = ErrorCode.SearchNotEnabled
    """The code of `$search` and similar stages, which need a process that does not exist here"""
    read_stream: Callable[[Any, str, str | None], None] = lambda _spec, _database, _collection: None
    """Checks the specification of a `$changeStream` on a database or a collection"""
    dialect: Dialect = CURRENT_DIALECT
    memory: StageMemory = field(default_factory=StageMemory)
    holder: str | None = None
    """The stage that contains the pipeline, if there is one"""
    depth: int = 0


CompilePipeline = Callable[[Sequence[Any], PipelineContext], Pipeline]


@dataclass(frozen=True, slots=True)
class StageScope:
    """The context of one stage."""

    context: PipelineContext
    compile_pipeline: CompilePipeline
    wanted: int | None = None
    """How many results the following stages take at most, if known"""
    foreign: set[Namespace] = field(default_factory=set)
    """Collects the other collections that stages read"""
    is_query: bool = False
    """Whether the stage is a part of the query that reads a collection"""

    @property
    def services(self) -> Services:
        return self.context.services

    @property
    def memory(self) -> StageMemory:
        return self.context.memory

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables and their values, which change from run to run in a pipeline inside `$lookup`."""
        return self.context.variables

    @property
    def string_key(self) -> StringKey:
        """The key function for comparing strings; None for code points."""
        return None if self.context.collation is None else self.context.collation.string_key

    @property
    def expressions(self) -> StageContext:
        """The context for stages that reshape one document."""
        context = self.context
        return StageContext(context.variables, context.collation, context.dialect)

    def parse(self, spec: Any) -> Expression:
        """Compile an expression of the stage."""
        return self.expressions.parse(spec)

    def environment(self, document: Document) -> Environment:
        """The environment of the stage's expressions for a document."""
        return {"CURRENT": document, **self.context.variables, "ROOT": document}

    def subpipeline(
        self,
        holder: str,
        stages: Sequence[Any],
        *,
        collection: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Pipeline:
        """Compile a pipeline inside this stage, on another collection or on this stage's documents."""
        depth = self.context.depth + 1
        if depth > _MAX_DEPTH:
            raise CommandError(
                ErrorCode.MaxSubPipelineDepthExceeded,
                f"Maximum number of nested sub-pipelines exceeded. Limit is {_MAX_DEPTH}",
            )
        context = replace(
            self.context,
            collection=collection,
            variables=self.context.variables if variables is None else variables,
            holder=holder,
            depth=depth,
        )
        pipeline = self.compile_pipeline(stages, context)
        self.foreign.update(pipeline.foreign)
        return pipeline
