"""Input of the parsers of ``$jsonSchema`` keywords, and checks of a keyword's argument."""

from collections.abc import Callable, Mapping, Sized
from typing import Any, NamedTuple, TypeAlias

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.paths import Test


class Keyword(NamedTuple):
    """The use of a keyword in a schema."""

    name: str
    argument: Any
    schema: Mapping[str, Any]
    """The schema that contains the keyword."""
    compile: Callable[[Mapping[str, Any]], Test]
    """Compiles a nested schema."""

    def subschema(self, value: Any) -> Test:
        """Compile a nested schema, which must be an object."""
        if not isinstance(value, Mapping):
            raise type_mismatch(f"$jsonSchema keyword '{self.name}' must hold schemas, which are objects")
        return self.compile(value)


KeywordParser: TypeAlias = Callable[[Keyword], Test | None]
"""Turns a keyword into a test for values; None if it adds no test."""


def type_mismatch(message: str) -> CommandError:
    """An argument of a wrong type."""
    return CommandError(ErrorCode.TypeMismatch, message)


def failed_to_parse(message: str) -> CommandError:
    """An argument of the right type with a wrong value."""
    return CommandError(ErrorCode.FailedToParse, message)


def checked_object(keyword: Keyword) -> Mapping[str, Any]:
    """The argument, which must be an object."""
    if not isinstance(keyword.argument, Mapping):
        raise type_mismatch(f"$jsonSchema keyword '{keyword.name}' must be an object")
    return keyword.argument


def checked_array(keyword: Keyword) -> list[Any]:
    """The argument, which must be an array."""
    if not isinstance(keyword.argument, list):
        raise type_mismatch(f"$jsonSchema keyword '{keyword.name}' must be an array")
    return keyword.argument


def checked_bool(keyword: Keyword) -> bool:
    """The argument, which must be a boolean."""
    if not isinstance(keyword.argument, bool):
        raise type_mismatch(f"$jsonSchema keyword '{keyword.name}' must be a boolean")
    return keyword.argument


def checked_string(keyword: Keyword) -> str:
    """The argument, which must be a string."""
    if not is_string(keyword.argument):
        raise type_mismatch(f"$jsonSchema keyword '{keyword.name}' must be a string")
    return keyword.argument


def checked_names(what: str, names: Any) -> list[str]:
    """An array of different strings, at least one."""
    if not isinstance(names, list):
        raise type_mismatch(f"$jsonSchema {what} must be an array")
    if not names:
        raise failed_to_parse(f"$jsonSchema {what} cannot be an empty array")
    for name in names:
        if not is_string(name):
            raise type_mismatch(f"$jsonSchema {what} must hold only strings")
    if len(set(names)) != len(names):
        raise failed_to_parse(f"$jsonSchema {what} must not hold the same string twice")
    return names


def only_for(kind: type, test: Test) -> Test:
    """A test that values of other types pass."""
    return lambda value: not isinstance(value, kind) or test(value)


def size_limit(keyword: Keyword, kind: type[Sized]) -> Test:
    """A test of the size of values of one type: at least the argument for ``min...``, else at most."""
    limit = integral_value(keyword.argument)
    if limit is None or limit < 0:
        raise failed_to_parse(f"$jsonSchema keyword '{keyword.name}' must be a non-negative integer")
    if keyword.name.startswith("min"):
        return only_for(kind, lambda value: len(value) >= limit)
    return only_for(kind, lambda value: len(value) <= limit)
