"""Stages that process one document at a time: filters and reshaping."""

from typing import Any

from tailrace.mongod.language.aggregation.document_stage import DocumentStage
from tailrace.mongod.language.aggregation.rows import Row
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.reshape import compile_stage


def compile_filter(name: str, spec: Any, scope: StageScope) -> Stage:
    """`$match`: drops rows that do not match and passes the others on unchanged."""
    keeps = compile_stage(
        name,
        spec,
        variables=scope.variables,
        collation=scope.context.collation,
        dialect=scope.context.dialect,
        is_query=scope.is_query,
    )
    return DocumentStage(lambda row: None if keeps(row.document) is None else row)


def compile_reshaping(name: str, spec: Any, scope: StageScope) -> Stage:
    """`$project`, `$addFields` and similar stages: a new document for each, or none."""
    reshape = compile_stage(
        name,
        spec,
        variables=scope.variables,
        collation=scope.context.collation,
        dialect=scope.context.dialect,
    )

    def change(row: Row) -> Row | None:
        document = reshape(row.document)
        return None if document is None else Row(document)

    return DocumentStage(change)
