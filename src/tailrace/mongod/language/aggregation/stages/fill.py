"""`$fill`: set fields that are null or missing to a fixed, the last or an interpolated value."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.specification import (
    checked_array,
    checked_fields,
    checked_object,
    checked_text,
)
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.set_window_fields import window_stage
from tailrace.mongod.language.aggregation.stages.single_document import compile_reshaping
from tailrace.mongod.language.aggregation.windows import parse_window_function
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.operands import type_name
from tailrace.query.sorting import compile_sort

_METHODS: Final = {"locf": "$locf", "linear": "$linearFill"}


def compile_fill(name: str, spec: Any, scope: StageScope) -> Stage:
    """A `$setWindowFields` for the methods, then an `$addFields` for the fixed values."""
    fields = checked_fields(
        name, spec, required=("output",), optional=("partitionBy", "partitionByFields", "sortBy")
    )
    output = checked_object(f"{name}.output", fields["output"])
    if not output:
        raise CommandError(6050203, f"The output field of {name} must contain at least one field")
    for filling in output.values():
        _parse_filling(name, filling)
    partition_by = _partition_by(name, fields)
    ordering = None
    if "sortBy" in fields:
        order = checked_object(f"{name}.sortBy", fields["sortBy"])
        ordering = compile_sort(order, scope.context.collation) if order else None
    functions = {}
    values: dict[str, Any] = {}
    for path, filling in output.items():
        kind, argument = _parse_filling(name, filling)
        if kind == "value":
            values[path] = {"$ifNull": [f"${path}", argument]}
        else:
            functions[path] = parse_window_function({_METHODS[argument]: f"${path}"}, ordering, scope)
    stages = []
    if functions:
        stages.append(window_stage(name, scope.parse(partition_by), ordering, functions, scope))
    if values:
        stages.append(compile_reshaping("$addFields", values, scope))

    def run(rows: Rows) -> Rows:
        for stage in stages:
            rows = stage(rows)
        return rows

    return run


def _partition_by(name: str, fields: Mapping[str, Any]) -> Any:
    if "partitionBy" in fields and "partitionByFields" in fields:
        raise CommandError(
            6050204, f"Maximum one of 'partitionBy' and 'partitionByFields' can be specified in {name}"
        )
    if "partitionByFields" in fields:
        paths = checked_array(f"{name}.partitionByFields", fields["partitionByFields"])
        texts = [checked_text(f"{name}.partitionByFields", path) for path in paths]
        return {str(number): f"${'.'.join(split_path(path))}" for number, path in enumerate(texts)}
    partition_by = fields.get("partitionBy")
    if partition_by is not None and not is_string(partition_by) and not isinstance(partition_by, Mapping):
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"'partitionBy' of {name} must be an expression, not {type_name(partition_by)}",
        )
    return partition_by


def _parse_filling(name: str, spec: Any) -> tuple[str, Any]:
    if not isinstance(spec, Mapping):
        raise CommandError(6050200, f"Each output of {name} must be an object, not {type_name(spec)}")
    fields = checked_fields(name, spec, optional=("method", "value"))
    if len(fields) != 1:
        raise CommandError(6050201, f"Each output of {name} must have exactly one of 'method' and 'value'")
    ((kind, argument),) = fields.items()
    if kind == "method" and checked_text(f"{name}.method", argument) not in _METHODS:
        raise CommandError(6050202, f"Method must be either 'locf' or 'linear', found '{argument}'")
    return kind, argument
