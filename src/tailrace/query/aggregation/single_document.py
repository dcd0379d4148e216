"""The stages that look at one document at a time: filters, and those that reshape."""

from typing import Any

from tailrace.query.aggregation.rows import PAUSE, Row, Rows
from tailrace.query.aggregation.scope import StageScope
from tailrace.query.aggregation.stage import Stage
from tailrace.query.reshape import compile_stage


def compile_filter(name: str, spec: Any, scope: StageScope) -> Stage:
    """`$match`: rows that do not match are dropped, all others pass as they are."""
    keeps = compile_stage(name, spec, variables=scope.variables, collation=scope.context.collation)

    def run(rows: Rows) -> Rows:
        for row in rows:
            if row is PAUSE or keeps(row.document) is not None:
                yield row

    return run


def compile_reshaping(name: str, spec: Any, scope: StageScope) -> Stage:
    """`$project`, `$addFields` and their like: another document for each, or none."""
    reshape = compile_stage(name, spec, variables=scope.variables, collation=scope.context.collation)

    def run(rows: Rows) -> Rows:
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            document = reshape(row.document)
            if document is not None:
                yield Row(document)

    return run
