"""``enum``, and equality that ignores the order of fields. Collations have no effect here."""

from typing import Any

from tailrace.bson.compare import sort_key, type_bracket
from tailrace.query.match.json_schema.keyword import Keyword, checked_array, failed_to_parse
from tailrace.query.missing import MISSING
from tailrace.query.paths import Test


def parse_enum(keyword: Keyword) -> Test:
    """``enum``: one of these values."""
    values = checked_array(keyword)
    if not values:
        raise failed_to_parse("$jsonSchema keyword 'enum' cannot be an empty array")
    keys = frozenset(unordered_key(value) for value in values)
    if len(keys) != len(values):
        raise failed_to_parse("$jsonSchema keyword 'enum' must not hold the same value twice")
    return lambda value: value is not MISSING and unordered_key(value) in keys


def unordered_key(value: Any) -> Any:
    """A key that is equal for values that differ at most in the order of fields.

    >>> unordered_key({"a": 1, "b": 2}) == unordered_key({"b": 2.0, "a": 1})
    True
    """
    if isinstance(value, dict):
        return type_bracket(value), frozenset((name, unordered_key(item)) for name, item in value.items())
    if isinstance(value, list):
        return type_bracket(value), tuple(unordered_key(item) for item in value)
    return sort_key(value)
