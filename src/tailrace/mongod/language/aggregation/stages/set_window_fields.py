"""`$setWindowFields`: fields computed from the neighbours of each document in its partition.

The results are grouped by partition, in the order of ``sortBy``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import value_key
from tailrace.mongod.language.aggregation.memory.held_rows import KEPT_DECODED, HeldRows
from tailrace.mongod.language.aggregation.memory.sorter import Sorter
from tailrace.mongod.language.aggregation.memory.valued_rows import valued_rows
from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.specification import checked_fields, checked_object
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.sort import refused
from tailrace.mongod.language.aggregation.windows import Partition, WindowFunction, parse_window_function
from tailrace.mongod.language.aggregation.windows.accumulated import FUNCTIONS as ACCUMULATED
from tailrace.mongod.language.aggregation.windows.bounds import UNBOUNDED
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.field_path import split_path
from tailrace.query.missing import MISSING
from tailrace.query.reshape.computed import ComputedFields
from tailrace.query.reshape.path_tree import PathTree
from tailrace.query.sorting import Ordering, compile_sort


def compile_set_window_fields(name: str, spec: Any, scope: StageScope) -> Stage:
    fields = checked_fields(name, spec, required=("output",), optional=("partitionBy", "sortBy"))
    ordering = None
    if "sortBy" in fields:
        order = checked_object(f"{name}.sortBy", fields["sortBy"])
        ordering = compile_sort(order, scope.context.collation) if order else None
    output = checked_object(f"{name}.output", fields["output"])
    functions = {path: parse_window_function(value, ordering, scope) for path, value in output.items()}
    partition_by = scope.parse(fields.get("partitionBy"))
    needs_all = any(map(_needs_whole_partition, output.values()))
    return window_stage(name, partition_by, ordering, functions, scope, needs_all=needs_all)


def _needs_whole_partition(call: Mapping[str, Any]) -> bool:
    """Whether MongoDB has to hold a whole partition for a function."""
    if not any(name in ACCUMULATED for name in call):
        return False
    window = call.get("window") or {}
    bounds = window.get("documents") or window.get("range")
    return not bounds or bounds[-1] == UNBOUNDED


def window_stage(
    name: str,
    partition_by: Expression,
    ordering: Ordering | None,
    functions: Mapping[str, WindowFunction],
    scope: StageScope,
    *,
    needs_all: bool = False,
) -> Stage:
    """A stage that sets window fields; also part of other stages.

    ``needs_all``: a partition that does not fit into memory is an error, if the disk may not be used.
    """
    setter = _setter(name, functions)
    memory = scope.memory
    limit = memory.limits.window
    key_of = value_key(scope)

    def key(value: Any, row: Row) -> Any:
        return key_of(value), None if ordering is None else ordering.key(row.document)

    def results(documents: HeldRows) -> Rows:
        partition = Partition(documents, ordering, scope)
        columns = {path: function(partition) for path, function in functions.items()}
        yield from paced(_with_fields(partition, columns, setter))
        yield PAUSE

    def run(rows: Rows) -> Rows:
        sort_limit = memory.limits.sort
        sorter = Sorter(memory, sort_limit, valued_rows(key), lambda: refused(sort_limit))
        documents = HeldRows(memory, limit)
        try:
            for row in rows:
                if row is PAUSE:
                    yield row
                    continue
                value = _partition_value(partition_by, row, scope)
                if sorter.add(key(value, row), (value, row)):
                    yield from sorter.spill()
                if sorter.size > KEPT_DECODED:
                    row.forget_values()
            current: Any = None
            for valued in sorter.items():
                if valued is PAUSE:
                    yield valued
                    continue
                value, row = valued
                partition = key_of(value)
                if partition != current and len(documents):
                    yield from results(documents)
                    documents.close()
                    documents = HeldRows(memory, limit)
                current = partition
                documents.append(row)
                if needs_all and not memory.may_use_disk and documents.size > limit:
                    reason = "Exceeded max memory. Set 'allowDiskUse: true' to spill to disk"
                    raise CommandError(5643011, reason)
            if len(documents):
                yield from results(documents)
        finally:
            documents.close()
            sorter.close()

    return run


def _partition_value(partition_by: Expression, row: Row, scope: StageScope) -> Any:
    value = partition_by(scope.environment(row.document))
    if isinstance(value, list):
        raise CommandError(
            ErrorCode.TypeMismatch, "An expression used to partition cannot evaluate to an array"
        )
    return None if value is MISSING else value


def _with_fields(
    partition: Partition, columns: Mapping[str, Iterable[Any]], setter: ComputedFields
) -> Iterator[Row]:
    paths = tuple(columns)
    for document, *values in zip(partition.documents, *columns.values(), strict=True):
        yield Row(setter.set_in(document, dict(zip(paths, values, strict=True))))


def _setter(name: str, paths: Mapping[str, Any]) -> ComputedFields:
    """Sets fields at paths like `$addFields`, each to the value of its path in the environment."""
    tree: PathTree[Expression] = PathTree()
    for path in paths:
        components = split_path(path)
        try:
            tree.add(components, _reader(path))
        except CommandError:
            raise CommandError(
                6307900, f"{name} specification contains two conflicting paths, one of them '{path}'"
            ) from None
    return _computed(tree)


def _reader(path: str) -> Callable[[Environment], Any]:
    return lambda env: env[path]


def _computed(tree: PathTree[Expression]) -> ComputedFields:
    fields = ComputedFields()
    for name, entry in tree.entries.items():
        fields.fields[name] = _computed(entry) if isinstance(entry, PathTree) else entry
    return fields
