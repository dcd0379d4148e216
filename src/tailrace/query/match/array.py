"""``$all``, ``$elemMatch`` and ``$size``."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tailrace.pacing import ticking
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.expressions.operands import INT32_MAX
from tailrace.query.match.nodes import Condition, Conjunction, ValueCondition
from tailrace.query.match.scope import FilterScope, OperatorCall, bad_value, is_operator_document
from tailrace.query.paths import as_document

# Documents with these operators are filters, although their first field starts with a dollar sign.
_FILTER_OPERATORS: Final = frozenset({"$and", "$or", "$nor", "$where"})


def parse_all(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$all``: the field equals or contains every value; an empty ``$all`` matches nothing.

    Either all members are ``$elemMatch`` or none is.
    """
    members = call.argument
    if not isinstance(members, list):
        raise bad_value("$all needs an array")
    if not members:
        return ValueCondition(lambda _value: False)
    if _is_elem_match(members[0]):
        if not all(_is_elem_match(member) for member in members):
            raise bad_value("$all/$elemMatch has to be consistent")
        return Conjunction([scope.operators({"$elemMatch": member["$elemMatch"]}) for member in members])
    for member in members:
        name = next(iter(member), "") if is_operator_document(member) else ""
        if name in scope.field_operators and name != "$not":
            raise bad_value("no $ expressions in $all")
    return Conjunction([scope.value(member) for member in members])


def _is_elem_match(member: Any) -> bool:
    return isinstance(member, Mapping) and next(iter(member), None) == "$elemMatch"


def parse_elem_match(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$elemMatch``: one element of an array meets all conditions.

    Operators apply to every element; a filter applies to elements with fields: documents, and arrays, whose
    fields are their indexes.
    """
    argument = call.argument
    if not isinstance(argument, Mapping):
        raise bad_value("$elemMatch needs an Object")
    if _is_about_values(argument):
        return _element_condition(scope.operators(argument).holds)
    matches = scope.of_element().filter(argument).matches

    def holds(element: Any) -> bool:
        document = as_document(element)
        return document is not None and matches(document)

    return _element_condition(holds)


def _is_about_values(argument: Mapping[str, Any]) -> bool:
    return (
        is_operator_document(argument, part_of_reference_suffices=True)
        and next(iter(argument)) not in _FILTER_OPERATORS
    )


def _element_condition(test: Callable[[Any], bool]) -> Condition:
    def find(value: Any) -> int | None:
        if not isinstance(value, list):
            return None
        return next((index for index, element in enumerate(ticking(value)) if test(element)), None)

    return ValueCondition(lambda value: find(value) is not None, into_last_array=False, find=find)


def parse_size(call: OperatorCall, _scope: FilterScope) -> Condition:
    """``$size``: the exact number of an array's elements."""
    size = integral_value(call.argument)
    if size is None:
        raise bad_value("Failed to parse $size. Expected an integer")
    if size < 0:
        raise bad_value("Failed to parse $size. Expected a non-negative number")
    if size > INT32_MAX:
        raise bad_value("Failed to parse $size. Cannot represent as a 32-bit integer")
    return ValueCondition(lambda value: isinstance(value, list) and len(value) == size, into_last_array=False)
