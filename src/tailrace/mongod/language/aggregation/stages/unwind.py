"""`$unwind`: one document for each element of an array, with the element in place of the array.

A value that is not an array counts as an array with one element. Without ``preserveNullAndEmptyArrays`` a
document whose field is missing, null or an empty array has no result. The path does not go through arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bson import Int64

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.nested_fields import get_nested, set_nested, without_nested
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Row, Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.pacing import tick
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.operands import is_nullish, type_name


@dataclass(frozen=True, slots=True)
class _Options:
    path: tuple[str, ...]
    preserves_empty: bool = False
    index_path: tuple[str, ...] | None = None


def compile_unwind(_name: str, spec: Any, _scope: StageScope) -> Stage:
    """The specification is a path or a document of options."""
    options = _parse(spec)

    def run(rows: Rows) -> Rows:
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            document = row.document
            value = get_nested(document, options.path)
            if isinstance(value, list) and value:
                for index, element in enumerate(value):
                    tick()
                    unwound = set_nested(document, options.path, element)
                    yield Row(_numbered(unwound, options, Int64(index)))
            elif isinstance(value, list):
                if options.preserves_empty:
                    yield Row(_numbered(without_nested(document, options.path), options, None))
            elif options.preserves_empty or not is_nullish(value):
                yield row if options.index_path is None else Row(_numbered(document, options, None))

    return run


def _numbered(document: Document, options: _Options, index: Int64 | None) -> Document:
    return document if options.index_path is None else set_nested(document, options.index_path, index)


def _parse(spec: Any) -> _Options:
    if is_string(spec):
        return _Options(_checked_path(spec))
    if not isinstance(spec, Mapping):
        raise CommandError(
            15981,
            "expected either a string or an object as specification for $unwind stage, got "
            f"{type_name(spec)}",
        )
    path = index_path = None
    preserves_empty = False
    for name, value in spec.items():
        if name == "path":
            path = _checked_path(value)
        elif name == "preserveNullAndEmptyArrays":
            if not isinstance(value, bool):
                raise CommandError(
                    28809,
                    "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got "
                    f"{type_name(value)}",
                )
            preserves_empty = value
        elif name == "includeArrayIndex":
            index_path = _checked_index_path(value)
        else:
            raise CommandError(28811, f"unrecognized option to $unwind stage: {name}")
    if path is None:
        raise CommandError(28812, "no path specified to $unwind stage")
    return _Options(path, preserves_empty, index_path)


def _checked_path(value: Any) -> tuple[str, ...]:
    if not is_string(value):
        raise CommandError(28808, f"expected a string as the path for $unwind stage, got {type_name(value)}")
    if not value:
        raise CommandError(28812, "no path specified to $unwind stage")
    if not value.startswith("$"):
        raise CommandError(28818, f"path option to $unwind stage should be prefixed with a '$': {value}")
    return split_path(value[1:])


def _checked_index_path(value: Any) -> tuple[str, ...]:
    if not is_string(value) or not value:
        raise CommandError(
            28810,
            "expected a non-empty string for the includeArrayIndex option to $unwind stage, got "
            f"{type_name(value)}",
        )
    if value.startswith("$"):
        raise CommandError(
            28822, f"includeArrayIndex option to $unwind stage should not be prefixed with a '$': {value}"
        )
    return split_path(value)
