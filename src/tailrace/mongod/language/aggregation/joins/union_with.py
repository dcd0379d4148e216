"""`$unionWith`: append the documents of another collection, or of a pipeline on it."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.joins.foreign import ForeignCollection
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.specification import (
    checked_array,
    checked_collection,
    checked_fields,
    checked_text,
)
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.operands import type_name


def check_union_with(name: str, spec: Any, _context: PipelineContext) -> None:
    if is_string(spec):
        return
    if not isinstance(spec, Mapping):
        raise CommandError(
            ErrorCode.FailedToParse,
            f"the {name} stage specification must be an object or string, but found {type_name(spec)}",
        )
    stages = spec.get("pipeline")
    first = stages[0] if isinstance(stages, list) and stages else None
    if "coll" not in spec and not (isinstance(first, Mapping) and "$documents" in first):
        raise CommandError(
            ErrorCode.FailedToParse,
            f"{name} stage without explicit collection must have a pipeline with $documents as first stage",
        )
    if "coll" in spec:
        checked_text(f"{name}.coll", spec["coll"])
    if "pipeline" in spec:
        checked_array(f"{name}.pipeline", spec["pipeline"])


def compile_union_with(name: str, spec: Any, scope: StageScope) -> Stage:
    """The specification is a collection's name, or a document with ``coll`` and ``pipeline``."""
    collection_name, stages = _parse(name, spec, scope)
    collection = None if collection_name is None else ForeignCollection(scope, collection_name)
    pipeline = scope.subpipeline(name, stages, collection=collection_name)

    def run(rows: Rows) -> Rows:
        yield from rows
        others: Rows = iter(())
        if collection is not None and pipeline.reads_collection:
            others = collection.rows()
        yield from pipeline.rows(others)

    return run


def _parse(name: str, spec: Any, scope: StageScope) -> tuple[str | None, list[Any]]:
    if is_string(spec):
        return checked_collection(scope.context.database, spec), []
    fields = checked_fields(name, spec, optional=("coll", "pipeline"))
    stages = checked_array(f"{name}.pipeline", fields["pipeline"]) if "pipeline" in fields else []
    if "coll" in fields:
        text = checked_text(f"{name}.coll", fields["coll"])
        return checked_collection(scope.context.database, text), stages
    return None, stages
