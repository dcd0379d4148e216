"""`$facet`: several pipelines on the same documents, with their results in one document."""

from collections.abc import Mapping
from typing import Any

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.field_path import check_field_name
from tailrace.query.expressions.operands import type_name


def check_facet(name: str, spec: Any, _context: PipelineContext) -> None:
    if not isinstance(spec, Mapping) or not spec:
        raise CommandError(40169, f"the {name} specification must be a non-empty object")
    for field, stages in spec.items():
        check_field_name(field)
        if not isinstance(stages, list):
            raise CommandError(
                40170, f"arguments to {name} must be arrays, {field} is type {type_name(stages)}"
            )
        if not all(isinstance(stage, Mapping) and stage for stage in stages):
            raise CommandError(40171, f"elements of arrays in {name} spec must be non-empty objects: {field}")


def compile_facet(name: str, spec: Any, scope: StageScope) -> Stage:
    """The documents are held in memory while each pipeline reads them."""
    pipelines = {}
    for field, stages in spec.items():
        pipelines[field] = scope.subpipeline(name, stages, collection=scope.context.collection)

    def run(rows: Rows) -> Rows:
        held: list[Row] = []
        for row in rows:
            if row is PAUSE:
                yield row
            else:
                held.append(row)
        facets: Document = {}
        for field, pipeline in pipelines.items():
            documents = facets[field] = []
            for row in pipeline.rows(paced(held)):
                if row is PAUSE:
                    yield row
                else:
                    documents.append(row.document)
        yield Row(facets)

    return run
