"""Operators that sort an array or select elements: `$sortArray`, `$firstN`, `$lastN`, `$minN`, `$maxN`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from tailrace.bson.compare import StringKey, sort_key
from tailrace.errors import CommandError
from tailrace.pacing import ticking
from tailrace.query.expressions.arguments import named_expressions, named_specs
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value
from tailrace.query.expressions.operands import is_nullish, is_number, type_name
from tailrace.query.expressions.scope import (
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)


def _parse_sort_array(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name, spec, required={"input": 2942502, "sortBy": 2942503}, not_object=2942500, unknown=2942501
    )
    source = scope.parse(specs["input"])
    sort = _sorter(name, specs["sortBy"], scope.string_key)

    def apply(env: Environment) -> list[Any] | None:
        array = source(env)
        if is_nullish(array):
            return None
        if not isinstance(array, list):
            raise CommandError(
                2942504, f"The input argument to {name} must be an array, but was {type_name(array)}"
            )
        return sort(array)

    return apply


def _sorter(name: str, spec: Any, string_key: StringKey) -> Callable[[list[Any]], list[Any]]:
    if not isinstance(spec, Mapping):
        descending = _is_descending(name, spec)
        return lambda array: _sorted(array, lambda item: sort_key(item, string_key), descending)
    if not spec:
        raise CommandError(2942505, f"{name} requires at least one field to sort by")
    keys = [(split_path(path), _is_field_descending(name, direction)) for path, direction in spec.items()]

    def sort(array: list[Any]) -> list[Any]:
        # Sorting is stable, so the least important key goes first.
        for components, descending in reversed(keys):
            array = _sorted(array, partial(_key_at, components, string_key), descending)
        return array

    return sort


def _is_field_descending(name: str, direction: Any) -> bool:
    try:
        return _is_descending(name, direction)
    except CommandError as error:
        raise CommandError(2942505, error.message) from None


def _is_descending(name: str, direction: Any) -> bool:
    if not is_number(direction):
        raise CommandError(2942507, f"{name} can only sort by 1 or -1, or by a document of fields with these")
    number = integral_value(direction)
    if number not in (1, -1):
        raise CommandError(
            2942506, f"The sortBy element of {name} must be either 1 or -1, but is {direction}"
        )
    return number == -1


def _key_at(components: tuple[str, ...], string_key: StringKey, item: Any) -> Any:
    return sort_key(_at(item, components), string_key)


def _at(value: Any, components: tuple[str, ...]) -> Any:
    """The value to sort an element by: null if the path does not exist. A number is an array index."""
    if not isinstance(value, dict):
        return None
    for name in components:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _pick(not_object: int, choose: Callable[[list[Any], int, StringKey], list[Any]]) -> OperatorParser:
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        named = named_expressions(
            name,
            spec,
            scope,
            required={"n": 5787906, "input": 5787907},
            not_object=not_object,
            unknown=5787901,
        )
        count, source = named["n"], named["input"]
        string_key = scope.string_key

        def apply(env: Environment) -> list[Any]:
            n, array = checked_count(name, count(env)), source(env)
            if not isinstance(array, list):
                raise CommandError(5788200, f"{name}: input must be an array, found: {type_name(array)}")
            return choose(array, n, string_key)

        return apply

    return parse


def checked_count(name: str, value: Any) -> int:
    """The ``n`` of an operator that selects n elements."""
    if not is_number(value):
        raise CommandError(
            5787902, f"Value for 'n' of {name} must be of integral type, but found {type_name(value)}"
        )
    number = integral_value(value)
    if number is None or not fits_int64(number):
        raise CommandError(5787903, f"Value for 'n' of {name} must be of integral type, but found {value}")
    if number <= 0:
        raise CommandError(5787908, f"'n' of {name} must be greater than 0, found {number}")
    return number


def _extremes(array: list[Any], n: int, string_key: StringKey, descending: bool) -> list[Any]:
    present = [item for item in array if not is_nullish(item)]
    return _sorted(present, lambda item: sort_key(item, string_key), descending)[:n]


def _sorted(items: list[Any], key_of: Callable[[Any], Any], descending: bool) -> list[Any]:
    return in_order(((key_of(item), item) for item in ticking(items)), reverse=descending)


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$firstN": _pick(5787801, lambda array, n, _: array[:n]),
    "$lastN": _pick(5787801, lambda array, n, _: array[-n:]),
    "$maxN": _pick(5787900, lambda array, n, string_key: _extremes(array, n, string_key, descending=True)),
    "$minN": _pick(5787900, lambda array, n, string_key: _extremes(array, n, string_key, descending=False)),
    "$sortArray": _parse_sort_array,
}
