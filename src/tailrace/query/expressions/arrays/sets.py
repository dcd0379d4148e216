"""Operators on arrays as sets: order and repetition are ignored.

MongoDB does not define the order of a result; here it is the one of 6.0: unions and intersections are
sorted, a difference is in the order of first occurrence.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tailrace.bson.compare import SortKey, StringKey, sort_key
from tailrace.errors import CommandError
from tailrace.pacing import ticking
from tailrace.query.expressions.arguments import (
    Law,
    parse_exactly,
    parse_list,
    unary,
    with_combined_constants,
)
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.expressions.operands import is_nullish, is_truthy, type_name
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)
from tailrace.query.wide_dict import Table, entries, keys_of, table
from tailrace.unused import freed_in_pieces


def _keyed(array: list[Any], string_key: StringKey, more: int = 0) -> Table[SortKey, Any]:
    """The elements by their sort key: of equal ones the first; with room for ``more``."""
    elements: Table[SortKey, Any] = table(len(array) + more)
    for item in ticking(array):
        elements.setdefault(sort_key(item, string_key), item)
    return elements


def _has_all(keys: Table[SortKey, Any], wanted: Table[SortKey, Any]) -> bool:
    return len(keys) >= len(wanted) and all(key in keys for key in keys_of(wanted))


def _check_array(code: int, name: str, value: Any) -> None:
    if not isinstance(value, list):
        raise CommandError(
            code, f"All operands of {name} must be arrays. One argument is of type: {type_name(value)}"
        )


def _truth_operator(name: str, code: int, combine: Callable[[Any], bool]) -> OperatorParser:
    def apply(array: Any) -> bool:
        _check_array(code, name, array)
        return combine(is_truthy(item) for item in ticking(array))

    return unary(apply)


def _combination(
    code: int, combine: Callable[[list[list[Any]], StringKey], Iterable[tuple[SortKey, Any]]]
) -> OperatorParser:
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        string_key = scope.string_key

        def combined(operands: Iterable[Any]) -> list[Any] | None:
            arrays = []
            for array in operands:
                if is_nullish(array):
                    return None
                _check_array(code, name, array)
                arrays.append(array)
            return in_order(combine(arrays, string_key))

        operands = parse_list(spec, scope)
        expressions = list(with_combined_constants(operands, combined, Law.COMMUTATIVE))
        return lambda env: combined(expression(env) for expression in expressions)

    return parse


def _union(arrays: list[list[Any]], string_key: StringKey) -> Iterable[tuple[SortKey, Any]]:
    if not arrays:
        return ()
    first, *others = arrays
    elements = _keyed(first, string_key, sum(map(len, others)))
    for array in others:
        for item in ticking(array):
            elements.setdefault(sort_key(item, string_key), item)
    return entries(elements)


def _intersection(arrays: list[list[Any]], string_key: StringKey) -> Iterable[tuple[SortKey, Any]]:
    if not arrays:
        return ()
    first, *others = [_keyed(array, string_key) for array in arrays]
    return [pair for pair in entries(first) if all(pair[0] in other for other in others)]


def _parse_difference(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    left, right = parse_exactly(2, name, spec, scope)
    string_key = scope.string_key

    def apply(env: Environment) -> list[Any] | None:
        minuend, subtrahend = left(env), right(env)
        if is_nullish(minuend) or is_nullish(subtrahend):
            return None
        _check_array(17048, name, minuend)
        _check_array(17049, name, subtrahend)
        elements = _keyed(subtrahend, string_key, len(minuend))
        kept: list[Any] = freed_in_pieces([], len(minuend))
        for item in ticking(minuend):
            key = sort_key(item, string_key)
            if key not in elements:
                elements.setdefault(key, item)
                kept.append(item)
        return kept

    return apply


def _parse_equals(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    expressions = parse_list(spec, scope)
    if len(expressions) < 2:
        raise CommandError(17045, f"{name} needs at least two arguments had: {len(expressions)}")
    for expression in expressions:
        if isinstance(expression, Constant):
            _check_array(5887502, name, expression.value)
    string_key = scope.string_key

    def apply(env: Environment) -> bool:
        arrays = [expression(env) for expression in expressions]
        for array in arrays:
            _check_array(17044, name, array)
        first, *others = (_keyed(array, string_key) for array in arrays)
        return all(len(first) == len(other) and _has_all(first, other) for other in others)

    return apply


def _parse_is_subset(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    left, right = parse_exactly(2, name, spec, scope)
    string_key = scope.string_key
    not_array = 17046
    if isinstance(right, Constant) and not isinstance(left, Constant):
        not_array = 17310
        _check_array(17311, name, right.value)

    def apply(env: Environment) -> bool:
        part, whole = left(env), right(env)
        _check_array(not_array, name, part)
        _check_array(17042, name, whole)
        return _has_all(_keyed(whole, string_key), _keyed(part, string_key))

    return apply


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$allElementsTrue": _truth_operator("$allElementsTrue", 17040, all),
    "$anyElementTrue": _truth_operator("$anyElementTrue", 17041, any),
    "$setDifference": _parse_difference,
    "$setEquals": _parse_equals,
    "$setIntersection": _combination(17047, _intersection),
    "$setIsSubset": _parse_is_subset,
    "$setUnion": _combination(17043, _union),
}
