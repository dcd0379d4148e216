"""The filter of a partial index: which expressions it may have."""

from collections.abc import Mapping
from typing import Any, Final

from bson import Regex

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.ddl.key_pattern import cannot_create
from tailrace.query.match import compile_match

_OPERATORS: Final = frozenset(
    {"$and", "$or", "$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$exists", "$type", "$all", "$comment"}
)
_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_NOT_ALLOWED: Final[Mapping[str, int]] = {
    "$expr": ErrorCode.QueryFeatureNotAllowed,
    "$jsonSchema": ErrorCode.QueryFeatureNotAllowed,
    "$text": ErrorCode.BadValue,
    "$where": ErrorCode.BadValue,
}


def parse_partial_filter(partial: Mapping[str, Any]) -> None:
    """Refuse a filter that does not parse, or whose features no index can have."""
    _check_features(partial)
    compile_match(partial)


def _check_features(expression: Mapping[str, Any]) -> None:
    for name, value in expression.items():
        if name in _NOT_ALLOWED:
            raise CommandError(_NOT_ALLOWED[name], f"{name} is not allowed in this context")
        for operand in value if name in _LOGICAL and isinstance(value, list) else ():
            if isinstance(operand, Mapping):
                _check_features(operand)


def check_partial_filter(spec: Mapping[str, Any]) -> None:
    """Refuse a filter that parses but that no partial index can have."""
    partial = spec.get("partialFilterExpression")
    if partial is None:
        return
    if spec.get("sparse"):
        raise cannot_create('cannot mix "partialFilterExpression" and "sparse" options')
    _check_operators(partial)


def _check_operators(expression: Mapping[str, Any]) -> None:
    """Allow only comparisons, existence and types, combined by `$and` and `$or`."""
    for name, value in expression.items():
        is_refused = name.startswith("$") and (name not in _OPERATORS or (name == "$exists" and not value))
        if is_refused or (isinstance(value, Regex) and not name.startswith("$")):
            raise cannot_create(f"Expression not supported in partial index: {shell({name: value})}")
        operands = value if isinstance(value, list) and name in ("$and", "$or") else [value]
        for operand in operands:
            is_operators = isinstance(operand, Mapping) and any(field.startswith("$") for field in operand)
            if is_operators or (name in ("$and", "$or") and isinstance(operand, Mapping)):
                _check_operators(operand)
