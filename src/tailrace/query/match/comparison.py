"""``$eq $ne $gt $gte $lt $lte $in $nin``; see `value_tests` for what they mean."""

from bson import Regex

from tailrace.query.match.nodes import Condition, Negation, ValueCondition
from tailrace.query.match.scope import Operation, Scope, bad_value, is_operator_document, refuse_undefined
from tailrace.query.match.value_tests import membership_test, range_test


def parse_eq(operation: Operation, scope: Scope) -> Condition:
    """``$eq``: unlike a bare value, a regex here stands for itself."""
    return scope.equality(operation.argument, scope.string_key)


def parse_ne(operation: Operation, scope: Scope) -> Condition:
    """``$ne``: not ``$eq``."""
    if isinstance(operation.argument, Regex):
        raise bad_value("Can't have regex as arg to $ne.")
    return Negation(parse_eq(operation, scope))


def parse_range(operation: Operation, scope: Scope) -> Condition:
    """``$gt $gte $lt $lte``."""
    if isinstance(operation.argument, Regex):
        raise bad_value(f"Can't have RegEx as arg to {operation.name}")
    refuse_undefined(operation.argument)
    return ValueCondition(range_test(operation.name, operation.argument, scope.string_key))


def parse_in(operation: Operation, scope: Scope) -> Condition:
    """``$in``: equals one of the values, or is found by one of the regexes."""
    if not isinstance(operation.argument, list):
        raise bad_value(f"{operation.name} needs an array")
    for value in operation.argument:
        if is_operator_document(value):
            raise bad_value(f"cannot nest $ under {operation.name}")
        refuse_undefined(value)
    return ValueCondition(membership_test(operation.argument, scope.string_key))


def parse_nin(operation: Operation, scope: Scope) -> Condition:
    """``$nin``: not ``$in``."""
    return Negation(parse_in(operation, scope))
