"""`$facet`: several pipelines on the same documents, with their results in one document."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.held_rows import HeldRows
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.field_path import check_field_name
from tailrace.query.expressions.operands import type_name

_HELD_BYTES: Final = 16 * 1024 * 1024


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
    """The documents are held while each pipeline reads them, in a file if there are many of them."""
    pipelines = {}
    for field, stages in spec.items():
        pipelines[field] = scope.subpipeline(name, stages, collection=scope.context.collection)

    memory = scope.memory
    limit = memory.limits.facet_output

    def run(rows: Rows) -> Rows:
        # MongoDB reads the documents for all pipelines at once and needs no memory for them, so that no
        # option of the command refuses a file here.
        held = HeldRows(memory, _HELD_BYTES)
        try:
            for row in rows:
                if row is PAUSE:
                    yield row
                else:
                    held.append(row)
            facets: Document = {}
            size = 0
            for field, pipeline in pipelines.items():
                documents = facets[field] = []
                for row in pipeline.rows(paced(held.rows())):
                    if row is PAUSE:
                        yield row
                        continue
                    size += len(row.stored)
                    if size > limit:
                        reason = f"document constructed by $facet is {size} bytes"
                        raise CommandError(4031700, f"{reason}, which exceeds the limit of {limit} bytes")
                    documents.append(row.document)
        finally:
            held.close()
        yield Row(facets)

    return run
