"""`$documents`: documents from the pipeline itself instead of a collection."""

from typing import Any

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.operands import type_name


def compile_documents(name: str, spec: Any, scope: StageScope) -> Stage:
    """The specification is an expression for an array of documents, evaluated without a document."""
    array = scope.parse(spec)

    def run(_rows: Rows) -> Rows:
        documents = array(scope.environment({}))
        if not isinstance(documents, list):
            raise CommandError(
                5858203, f"an array is expected as the argument of {name}, found {type_name(documents)}"
            )
        for document in documents:
            if not isinstance(document, dict):
                raise CommandError(
                    40228, f"every element of {name} must be an object, found {type_name(document)}"
                )
        return paced(Row(document) for document in documents)

    return run
