"""The stages that look at one document at a time: filters, and those that reshape."""

from typing import Any

from tailrace.mongod.language.aggregation.document_stage import DocumentStage
from tailrace.mongod.language.aggregation.rows import Row
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.reshape import compile_stage


def compile_filter(name: str, spec: Any, scope: StageScope) -> Stage:
    """`$match`: rows that do not match are dropped, all others pass as they are."""
    keeps = compile_stage(name, spec, variables=scope.variables, collation=scope.context.collation)
    return DocumentStage(lambda row: None if keeps(row.document) is None else row)


def compile_reshaping(name: str, spec: Any, scope: StageScope) -> Stage:
    """`$project`, `$addFields` and their like: another document for each, or none."""
    reshape = compile_stage(name, spec, variables=scope.variables, collation=scope.context.collation)

    def change(row: Row) -> Row | None:
        document = reshape(row.document)
        return None if document is None else Row(document)

    return DocumentStage(change)
