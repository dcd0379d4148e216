"""Helpers for tests of expressions: evaluate a specification, and compare results with their types."""

from typing import Any

import pytest

from tailrace.errors import CommandError
from tailrace.query.expressions import environment, parse_expression


class CaseInsensitive:
    """A minimal collation."""

    def string_key(self, text: str, /) -> str:
        return text.lower()


def evaluate(spec: Any, document: dict[str, Any] | None = None, **variables: Any) -> Any:
    expression = parse_expression(spec, variables=frozenset(variables))
    return expression(environment(document or {}, variables))


def typed(value: Any) -> Any:
    """A form of the value that differs by type and by the order of fields."""
    if isinstance(value, dict):
        return [(name, typed(item)) for name, item in value.items()]
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, repr(value)


def assert_value(spec: Any, document: dict[str, Any], expected: Any) -> None:
    """The specification evaluates to the expected value, with the same type."""
    assert typed(evaluate(spec, document)) == typed(expected)


def assert_code(spec: Any, document: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as caught:
        evaluate(spec, document)
    assert caught.value.code == code, caught.value
