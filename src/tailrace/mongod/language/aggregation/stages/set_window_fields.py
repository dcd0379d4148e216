"""`$setWindowFields`: fields computed from the neighbours of each document in its partition.

The results are grouped by partition, in the order of ``sortBy``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import value_key
from tailrace.mongod.language.aggregation.rows import Document, Row, Rows, collect, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.specification import checked_fields, checked_object
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.windows import Partition, WindowFunction, parse_window_function
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.field_path import split_path
from tailrace.query.missing import MISSING
from tailrace.query.pacing import tick
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
    return window_stage(name, partition_by, ordering, functions, scope)


def window_stage(
    name: str,
    partition_by: Expression,
    ordering: Ordering | None,
    functions: Mapping[str, WindowFunction],
    scope: StageScope,
) -> Stage:
    """A stage that sets window fields; also part of other stages."""
    setter = _setter(name, functions)

    def run(rows: Rows) -> Rows:
        documents: list[Document] = []
        yield from collect(rows, documents)
        for partition in _partitions(documents, partition_by, ordering, scope):
            columns = {path: function(partition) for path, function in functions.items()}
            yield from paced(_with_fields(partition, columns, setter))

    return run


def _partitions(
    documents: list[Document], partition_by: Expression, ordering: Ordering | None, scope: StageScope
) -> Iterator[Partition]:
    key_of = value_key(scope)
    partitions: dict[Any, list[Document]] = {}
    for document in ordering.sort(documents) if ordering is not None else documents:
        tick()
        value = partition_by(scope.environment(document))
        if isinstance(value, list):
            raise CommandError(
                ErrorCode.TypeMismatch, "An expression used to partition cannot evaluate to an array"
            )
        partitions.setdefault(key_of(None if value is MISSING else value), []).append(document)
    for key in sorted(partitions):
        yield Partition(partitions[key], ordering, scope)


def _with_fields(
    partition: Partition, columns: Mapping[str, list[Any]], setter: ComputedFields
) -> Iterator[Row]:
    for position, document in enumerate(partition.documents):
        yield Row(setter.set_in(document, {path: values[position] for path, values in columns.items()}))


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
