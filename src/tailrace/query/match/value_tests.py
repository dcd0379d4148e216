"""Tests for single values: equality, ranges, membership, regexes.

Values compare only within their type bracket: ``{$gt: 5}`` never matches a string. The exceptions: null also
equals a missing field, MinKey and MaxKey compare with everything, and NaN equals NaN but is neither above nor
below any number. Numbers of all types are one bracket, strings and symbols another.

The type of the filter's value decides which test is used; common types have fast ones.
"""

from collections.abc import Callable
from decimal import Decimal
from operator import eq, ge, gt, le, lt
from typing import Any, Final, TypeAlias

from bson import Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex

from tailrace.bson.compare import SortKey, StringKey, sort_key, type_bracket
from tailrace.bson.regex_parts import regex_options, regex_pattern
from tailrace.bson.values import Symbol, Undefined
from tailrace.pacing import ticking
from tailrace.query.expressions.numbers.number_types import real
from tailrace.query.missing import MISSING
from tailrace.query.paths import Test
from tailrace.query.pcre import compile_pattern
from tailrace.query.wide_dict import Table, keys_of, table

_Order: TypeAlias = Callable[[Any, Any], bool]

_ORDERS: Final[dict[str, _Order]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_REAL: Final = frozenset({int, Int64, float})
_NUMBERS: Final = frozenset({int, Int64, float, Decimal128})
_STRING_BRACKET: Final = type_bracket("")


def equality_test(wanted: Any, string_key: StringKey = None, *, undefined_is_null: bool = False) -> Test:
    """A test for equality; the order of fields is significant, the type of a number is not."""
    if wanted is None:
        if undefined_is_null:
            return lambda value: value is None or value is MISSING or value.__class__ is Undefined
        return lambda value: value is None or value is MISSING
    kind = type(wanted)
    if kind is str and string_key is None:
        return lambda value: value == wanted or (value.__class__ is Symbol and value.text == wanted)
    if kind in _REAL and wanted == wanted:
        return _number_test(wanted, eq)
    if kind is bool:
        return lambda value: value is wanted
    if kind is ObjectId:
        return lambda value: value.__class__ is ObjectId and bool(value == wanted)
    key = sort_key(wanted, string_key)
    if isinstance(wanted, dict | list):
        container, size = (dict if isinstance(wanted, dict) else list), len(wanted)
        return lambda value: (
            isinstance(value, container) and len(value) == size and sort_key(value, string_key) == key
        )
    return lambda value: value is not MISSING and sort_key(value, string_key) == key


def range_test(
    operator: str, limit: Any, string_key: StringKey = None, *, undefined_is_null: bool = False
) -> Test:
    """A test for values above or below a limit; ``operator`` is ``$gt``, ``$gte``, ``$lt`` or ``$lte``."""
    inclusive = operator in ("$gte", "$lte")
    if limit is None:
        return equality_test(None, undefined_is_null=undefined_is_null) if inclusive else _never
    if isinstance(limit, MinKey | MaxKey):
        return _end_test(operator, limit)
    order = _ORDERS[operator]
    kind = type(limit)
    if kind in _NUMBERS:
        if _is_nan(limit):
            return equality_test(limit) if inclusive else _never
        return _number_test(real(limit), order)
    if kind is str and string_key is None:
        return lambda value: (
            order(value, limit)
            if value.__class__ is str
            else value.__class__ is Symbol and order(value.text, limit)
        )
    bracket = type_bracket(limit)
    key = sort_key(limit, string_key)

    def holds(value: Any) -> bool:
        if value is MISSING or type_bracket(value) != bracket:
            return False
        return order(sort_key(value, string_key), key)

    return holds


def membership_test(
    values: list[Any], string_key: StringKey = None, *, undefined_is_null: bool = False
) -> Test:
    """A test for values that equal one of the values, or are matched by a regex among them."""
    keys: Table[SortKey, None] = table(len(values))
    for value in ticking(values):
        if value is not None:
            keys[sort_key(value, string_key)] = None
    texts: Table[str, None] | None = None
    if string_key is None:
        texts = table(len(keys))
        for key in keys_of(keys):
            if key[0] == _STRING_BRACKET:
                texts[key[1]] = None
    regexes = [regex_test(value) for value in ticking(values) if isinstance(value, Regex)]
    has_null = any(value is None for value in ticking(values))

    def holds(value: Any) -> bool:
        if value is None or value is MISSING or (undefined_is_null and value.__class__ is Undefined):
            return has_null
        if texts is not None and value.__class__ is str:
            if value in texts:
                return True
        elif sort_key(value, string_key) in keys:
            return True
        return any(test(value) for test in regexes)

    return holds


def regex_test(regex: Regex[Any]) -> Test:
    """A test for strings that a BSON regex matches; a value that is a regex passes if it is equal."""
    return pattern_test(regex_pattern(regex), regex_options(regex))


def pattern_test(pattern: str, options: str) -> Test:
    """Like `regex_test`, for a pattern and its options."""
    search = compile_pattern(pattern, options).search
    same_options = frozenset(options)

    def holds(value: Any) -> bool:
        kind = value.__class__
        if kind is str:
            return search(value) is not None
        if kind is Symbol:
            return search(value.text) is not None
        return (
            kind is Regex
            and regex_pattern(value) == pattern
            and frozenset(regex_options(value)) == same_options
        )

    return holds


def _never(_value: Any) -> bool:
    return False


def _is_nan(value: Any) -> bool:
    number = real(value)
    return number != number


def _number_test(limit: int | float | Decimal, order: _Order) -> Test:
    """Compare numbers, as Python does: exactly, with any types; NaN never passes."""

    def holds(value: Any) -> bool:
        if value.__class__ in _REAL:
            # A Decimal refuses to be ordered against NaN.
            return value == value and order(value, limit)
        return value.__class__ is Decimal128 and not _is_nan(value) and order(real(value), limit)

    return holds


def _end_test(operator: str, limit: MinKey | MaxKey) -> Test:
    """All values, and a missing field, are above MinKey and below MaxKey."""
    end = type(limit)
    beyond = operator in ("$gt", "$gte") if end is MinKey else operator in ("$lt", "$lte")
    inclusive = operator in ("$gte", "$lte")
    return lambda value: inclusive if isinstance(value, end) else beyond
