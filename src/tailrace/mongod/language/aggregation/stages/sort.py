"""`$sort`: sort all documents; with a following `$limit`, only about as many are held in memory."""

from collections.abc import Generator
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.budget import ROW_OVERHEAD, StageMemory
from tailrace.mongod.language.aggregation.memory.held_rows import KEPT_DECODED, HeldRows
from tailrace.mongod.language.aggregation.memory.runs import Keyed
from tailrace.mongod.language.aggregation.memory.sorter import Codec, Sorter
from tailrace.mongod.language.aggregation.rows import PAUSE, Pause, Row, Rows, pack, unpack
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.sorting import Ordering, compile_sort


def compile_sort_stage(_name: str, spec: Any, scope: StageScope) -> Stage:
    return sort_stage(compile_sort(spec, scope.context.collation), scope.memory, scope.wanted)


def sort_stage(ordering: Ordering, memory: StageMemory, limit: int | None = None) -> Stage:
    """A stage that sorts; also part of other stages."""

    def run(rows: Rows) -> Rows:
        sorter = row_sorter(ordering, memory, limit)
        try:
            for row in rows:
                if row is PAUSE:
                    yield row
                    continue
                if sorter.add(ordering.natural_key(row.document), row):
                    yield from sorter.spill()
                if sorter.size > KEPT_DECODED:
                    row.forget_values()
            yield from sorter.items()
        finally:
            sorter.close()

    return run


def sorted_rows(rows: Rows, ordering: Ordering, memory: StageMemory) -> Generator[Pause, None, HeldRows]:
    """Sort all rows and hold them; to be closed by the caller."""
    held = HeldRows(memory, memory.limits.sort)
    try:
        for row in sort_stage(ordering, memory)(rows):
            if row is PAUSE:
                yield row
            else:
                held.append(row)
    except BaseException:
        held.close()
        raise
    return held


def row_sorter(ordering: Ordering, memory: StageMemory, limit: int | None = None) -> Sorter[Row]:
    """A sorter of rows, to which the natural key of each is given."""

    def unpacked(record: bytes) -> Keyed[Row]:
        row = unpack(record)
        return ordering.natural_key(row.document), row

    codec = Codec(_size, pack, unpacked)
    most = memory.limits.sort
    return Sorter(memory, most, codec, lambda: refused(most), reverse=ordering.is_reversed, most=limit)


def _size(row: Row) -> int:
    return len(row.stored) + ROW_OVERHEAD


def refused(limit: int) -> CommandError:
    """The error of a sort that does not fit into memory and may not use the disk."""
    reason = f"Sort exceeded memory limit of {limit} bytes, but did not opt in to external sorting."
    return CommandError(ErrorCode.QueryExceededMemoryLimitNoDiskUseAllowed, reason)
