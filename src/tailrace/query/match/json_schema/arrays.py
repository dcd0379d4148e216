"""Keywords for arrays; other values pass."""

from collections.abc import Mapping
from typing import Any

from tailrace.query.match.json_schema.enums import unordered_key
from tailrace.query.match.json_schema.keyword import (
    Keyword,
    checked_bool,
    only_for,
    size_limit,
    type_mismatch,
)
from tailrace.query.paths import Test


def parse_items(keyword: Keyword) -> Test:
    """``items``: one schema for all elements, or one for each of the first elements."""
    argument = keyword.argument
    if isinstance(argument, Mapping):
        test = keyword.subschema(argument)
        return only_for(list, lambda array: all(test(item) for item in array))
    if not isinstance(argument, list):
        raise type_mismatch("$jsonSchema keyword 'items' must be an array or an object")
    tests = [keyword.subschema(schema) for schema in argument]
    return only_for(list, lambda array: all(test(item) for test, item in zip(tests, array, strict=False)))


def parse_additional_items(keyword: Keyword) -> Test | None:
    """``additionalItems``: whether elements after those of an ``items`` list are allowed, or their schema."""
    argument = keyword.argument
    if isinstance(argument, Mapping):
        test: Test = keyword.subschema(argument)
    elif isinstance(argument, bool):
        allowed = argument
        test = lambda _item: allowed  # noqa: E731 - shorter than a function
    else:
        raise type_mismatch("$jsonSchema keyword 'additionalItems' must be an object or a boolean")
    items = keyword.schema.get("items")
    if not isinstance(items, list):
        return None
    first = len(items)
    return only_for(list, lambda array: all(test(item) for item in array[first:]))


def parse_size(keyword: Keyword) -> Test:
    """``minItems`` and ``maxItems``."""
    return size_limit(keyword, list)


def parse_unique_items(keyword: Keyword) -> Test | None:
    """``uniqueItems``: no two elements are equal; the order of fields is ignored."""
    return only_for(list, _are_unique) if checked_bool(keyword) else None


def _are_unique(array: list[Any]) -> bool:
    return len({unordered_key(item) for item in array}) == len(array)
