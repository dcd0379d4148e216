"""``$eq $ne $gt $gte $lt $lte $in $nin``; `value_tests` defines their semantics."""

from bson import Regex

from tailrace.pacing import ticking
from tailrace.query.match.nodes import Condition, Negation, ValueCondition
from tailrace.query.match.scope import (
    FilterScope,
    OperatorCall,
    bad_value,
    is_operator_document,
    refuse_undefined,
)
from tailrace.query.match.value_tests import membership_test, range_test


def parse_eq(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$eq``: unlike a bare regex, a regex here does not search strings."""
    return scope.equality(call.argument, scope.string_key)


def parse_ne(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$ne``: not ``$eq``."""
    if isinstance(call.argument, Regex):
        raise bad_value("Can't have regex as arg to $ne.")
    return Negation(parse_eq(call, scope))


def parse_range(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$gt $gte $lt $lte``."""
    if isinstance(call.argument, Regex):
        raise bad_value(f"Can't have RegEx as arg to {call.name}")
    refuse_undefined(call.argument)
    return ValueCondition(
        range_test(
            call.name, call.argument, scope.string_key, undefined_is_null=scope.dialect.undefined_is_null
        )
    )


def parse_in(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$in``: equal to one of the values, or matched by one of the regexes."""
    if not isinstance(call.argument, list):
        raise bad_value(f"{call.name} needs an array")
    for value in ticking(call.argument):
        if is_operator_document(value):
            raise bad_value(f"cannot nest $ under {call.name}")
        refuse_undefined(value)
    return ValueCondition(
        membership_test(call.argument, scope.string_key, undefined_is_null=scope.dialect.undefined_is_null)
    )


def parse_nin(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$nin``: not ``$in``."""
    return Negation(parse_in(call, scope))
