"""Where a pipeline stands, and what its stages may refer to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.pipeline import Namespace, Pipeline
from tailrace.mongod.language.aggregation.rows import Document
from tailrace.mongod.language.aggregation.services import NoServices, Services
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.scope import Collating, StringKey
from tailrace.query.reshape.stage import StageContext

_MAX_DEPTH: Final = 20


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """What a pipeline is compiled for."""

    database: str
    collection: str | None
    """None for ``{aggregate: 1}``, where the first stage has to bring the documents."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """What ``$$`` can refer to: ``NOW``, ``CLUSTER_TIME``, and the command's ``let``."""
    collation: Collating | None = None
    services: Services = field(default_factory=NoServices)
    in_transaction: bool = False
    holder: str | None = None
    """The stage that the pipeline stands in, if it is inside another."""
    depth: int = 0


CompilePipeline = Callable[[Sequence[Any], PipelineContext], Pipeline]


@dataclass(frozen=True, slots=True)
class StageScope:
    """Where one stage stands."""

    context: PipelineContext
    compile_pipeline: CompilePipeline
    wanted: int | None = None
    """How many results the stages behind will take at most, where that is known."""
    foreign: set[Namespace] = field(default_factory=set)
    """Gathers the other collections that stages read."""

    @property
    def services(self) -> Services:
        """Where other collections are read."""
        return self.context.services

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables and their values; in a pipeline inside `$lookup` these change from run to run."""
        return self.context.variables

    @property
    def string_key(self) -> StringKey | None:
        """What strings are compared by, or None for their code points."""
        return None if self.context.collation is None else self.context.collation.string_key

    @property
    def expressions(self) -> StageContext:
        """What the stages that reshape one document are compiled in."""
        return StageContext(self.context.variables, self.context.collation)

    def parse(self, spec: Any) -> Expression:
        """An expression of the stage."""
        return self.expressions.parse(spec)

    def environment(self, document: Document) -> Environment:
        """Where the stage's expressions are evaluated for a document."""
        return {"CURRENT": document, **self.context.variables, "ROOT": document}

    def subpipeline(
        self,
        holder: str,
        stages: Sequence[Any],
        *,
        collection: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Pipeline:
        """A pipeline inside this stage, on another collection or on the documents of this one."""
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
