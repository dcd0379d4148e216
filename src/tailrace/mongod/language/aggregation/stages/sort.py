"""`$sort`: all documents in an order; if only the first few are wanted, no more than those are held."""

from typing import Any

from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.sorting import Ordering, TopSelector, compile_sort


def compile_sort_stage(_name: str, spec: Any, scope: StageScope) -> Stage:
    """The stage."""
    return sort_stage(compile_sort(spec, scope.context.collation), scope.wanted)


def sort_stage(ordering: Ordering, limit: int | None = None) -> Stage:
    """A stage that sorts, for stages that are made of several."""

    def run(rows: Rows) -> Rows:
        selector: TopSelector[Row] = TopSelector(ordering, limit)
        for row in rows:
            if row is PAUSE:
                yield row
            else:
                selector.add(row.document, row)
        yield from paced(selector.items())

    return run
