"""``$exists`` and ``$type``."""

from collections.abc import Collection
from typing import Any, Final

from tailrace.bson.compare import TYPE_CODES, type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.expressions.operands import is_number, is_truthy
from tailrace.query.match.nodes import Condition, Negation, ValueCondition
from tailrace.query.match.scope import FilterScope, OperatorCall, bad_value
from tailrace.query.missing import MISSING
from tailrace.query.paths import Test

NUMBER_TYPES: Final = frozenset({"double", "int", "long", "decimal"})
_ALIASES: Final[dict[str, frozenset[str]]] = {
    "number": NUMBER_TYPES,
    **{name: frozenset({name}) for name in TYPE_CODES.values()},
}


def parse_exists(call: OperatorCall, _scope: FilterScope) -> Condition:
    """``$exists``: every argument except false, zero and null means that the field exists."""
    exists = ValueCondition(lambda value: value is not MISSING)
    return exists if is_truthy(call.argument) else Negation(exists)


def parse_type(call: OperatorCall, _scope: FilterScope) -> Condition:
    """``$type``: an alias, a code, or an array of them; an array has its type and those of its elements."""
    argument = call.argument
    wanted = argument if isinstance(argument, list) else [argument]
    if not wanted:
        raise CommandError(ErrorCode.FailedToParse, "$type must match at least one type")
    return ValueCondition(type_test(frozenset().union(*(_types(item) for item in wanted))))


def type_test(names: Collection[str]) -> Test:
    """A test for values whose type has one of these names."""
    return lambda value: value is not MISSING and type_name(value) in names


def types_by_alias(alias: str) -> frozenset[str]:
    """The types of an alias: four for "number", one for every other."""
    if alias == "missing":
        raise bad_value("'missing' is not a legal type name. Use {$exists: false} to find missing fields")
    types = _ALIASES.get(alias)
    if types is None:
        raise bad_value(f"Unknown type name alias: {alias}")
    return types


def _types(wanted: Any) -> frozenset[str]:
    if is_string(wanted):
        return types_by_alias(wanted)
    if not is_number(wanted):
        raise CommandError(ErrorCode.TypeMismatch, "type must be represented as a number or a string")
    code = integral_value(wanted)
    if code == 0:
        raise bad_value("Invalid numerical type code: 0. Instead use {$exists: false}")
    if code not in TYPE_CODES:
        raise bad_value(f"Invalid numerical type code: {wanted}")
    return frozenset({TYPE_CODES[code]})
