"""``allOf anyOf oneOf not``."""

from collections.abc import Callable, Sequence
from typing import Final

from tailrace.query.match.json_schema.keyword import Keyword, checked_array
from tailrace.query.match.nodes import every, some
from tailrace.query.match.scope import bad_value
from tailrace.query.paths import Test


def _one_of(tests: Sequence[Test]) -> Test:
    return lambda value: sum(test(value) for test in tests) == 1


_COMBINATIONS: Final[dict[str, Callable[[Sequence[Test]], Test]]] = {
    "allOf": every,
    "anyOf": some,
    "oneOf": _one_of,
}


def parse_combination(keyword: Keyword) -> Test:
    """``allOf anyOf oneOf``: an array of schemas."""
    schemas = checked_array(keyword)
    if not schemas:
        raise bad_value(f"$jsonSchema keyword '{keyword.name}' must be a non-empty array")
    return _COMBINATIONS[keyword.name]([keyword.subschema(schema) for schema in schemas])


def parse_not(keyword: Keyword) -> Test:
    """``not``: a schema."""
    test = keyword.subschema(keyword.argument)
    return lambda value: not test(value)
