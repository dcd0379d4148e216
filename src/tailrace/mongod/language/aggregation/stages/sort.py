"""`$sort`: sort all documents; with a following `$limit`, only about as many are held in memory."""

from typing import Any

from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.sorting import Ordering, TopSelector, compile_sort


def compile_sort_stage(_name: str, spec: Any, scope: StageScope) -> Stage:
    return sort_stage(compile_sort(spec, scope.context.collation), scope.wanted)


def sort_stage(ordering: Ordering, limit: int | None = None) -> Stage:
    """A stage that sorts; also part of other stages."""

    def run(rows: Rows) -> Rows:
        selector: TopSelector[Row] = TopSelector(ordering, limit)
        for row in rows:
            if row is PAUSE:
                yield row
            else:
                selector.add(row.document, row)
        yield from paced(selector.items())

    return run
