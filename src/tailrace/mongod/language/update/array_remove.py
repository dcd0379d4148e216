"""Operators that remove elements of an array: ``$pop``, ``$pull``, ``$pullAll``.

They do nothing if the array is missing. The remaining array is logged as a whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import Regex

from tailrace.bson.compare import equal, type_name
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.operator import (
    UNCHANGED,
    Changed,
    CompileOptions,
    Operator,
    Outcome,
    Path,
    UpdateContext,
    checked_array,
)
from tailrace.mongod.language.update.query_features import check_features
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.match import compile_match
from tailrace.query.match.operators import FIELD_OPERATORS
from tailrace.query.missing import MISSING, Missing

_NOT_ON_ELEMENTS: Final = frozenset({"$not", "$where"})
"""Operators on fields that a condition on elements cannot begin with"""


def compile_pop(_path: str, value: Any, _options: CompileOptions) -> Operator:
    """``$pop`` takes 1 for the last element and -1 for the first."""
    number = integral_value(value)
    if number not in (1, -1):
        raise CommandError(ErrorCode.FailedToParse, f"$pop expects 1 or -1, found: {shell(value)}")

    def apply(current: Any | Missing, path: Path, context: UpdateContext) -> Outcome:
        if current is MISSING:
            return UNCHANGED
        array = checked_array("$pop", current, path, context)
        if not array:
            return UNCHANGED
        return Changed(array[:-1] if number == 1 else array[1:])

    return Operator(apply)


def compile_pull_all(_path: str, value: Any, options: CompileOptions) -> Operator:
    """``$pullAll`` takes an array of values."""
    if not isinstance(value, list):
        message = f"$pullAll requires an array argument but was given a {type_name(value)}"
        raise CommandError(ErrorCode.BadValue, message)
    return _remove_if("$pullAll", lambda item: any(equal(item, other, options.string_key) for other in value))


def compile_pull(_path: str, value: Any, options: CompileOptions) -> Operator:
    """``$pull`` takes a value, a condition on elements, or a query on elements that are documents."""
    return _remove_if("$pull", _pull_condition(value, options))


def _pull_condition(value: Any, options: CompileOptions) -> Callable[[Any], bool]:
    first = next(iter(value), "") if isinstance(value, Mapping) else ""
    if isinstance(value, Regex) or (first in FIELD_OPERATORS and first not in _NOT_ON_ELEMENTS):
        matches = compile_match({"": value}, variables=options.variables, collation=options.collation)
        return lambda item: matches({"": item})
    if isinstance(value, Mapping):
        check_features(value)
        query = compile_match(value, variables=options.variables, collation=options.collation)
        return lambda item: isinstance(item, dict) and query(item)
    return lambda item: equal(item, value, options.string_key)


def _remove_if(name: str, is_removed: Callable[[Any], bool]) -> Operator:
    def apply(current: Any | Missing, path: Path, context: UpdateContext) -> Outcome:
        if current is MISSING:
            return UNCHANGED
        array = checked_array(name, current, path, context)
        remaining = [item for item in array if not is_removed(item)]
        return UNCHANGED if len(remaining) == len(array) else Changed(remaining)

    return Operator(apply)
