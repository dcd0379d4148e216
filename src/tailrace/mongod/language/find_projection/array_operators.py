"""Projection operators on arrays: ``$slice``, ``$elemMatch``, and the positional ``$``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.errors import CommandError
from tailrace.query.expressions import Environment, Expression
from tailrace.query.expressions.numbers.number_types import integral_value, real
from tailrace.query.expressions.operands import INT32_MAX, INT32_MIN, Number, is_number, type_name
from tailrace.query.match import Matcher, compile_match
from tailrace.query.missing import MISSING
from tailrace.query.reshape.stage import StageContext

Components = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """``$slice``: a part of the arrays at a path; other values stay unchanged."""

    skip: int | None
    limit: int

    def applied_to(self, value: Any, components: Components) -> Any:
        """The value with the arrays at a path below it sliced; through arrays of documents."""
        if not components:
            return self._cut(value) if isinstance(value, list) else value
        if isinstance(value, list):
            return [self.applied_to(item, components) if isinstance(item, dict) else item for item in value]
        if not isinstance(value, dict) or components[0] not in value:
            return value
        return {**value, components[0]: self.applied_to(value[components[0]], components[1:])}

    def _cut(self, array: list[Any]) -> list[Any]:
        if self.skip is None:
            return array[: self.limit] if self.limit >= 0 else array[self.limit :]
        start = self.skip if self.skip >= 0 else max(len(array) + self.skip, 0)
        return array[start : start + self.limit]


def parse_slice(argument: Any) -> Slice | None:
    """``n`` or ``[skip, n]``; None if the argument must be that of the expression ``$slice``."""
    if is_number(argument):
        return Slice(None, _int32(argument))
    if not isinstance(argument, list) or len(argument) != 2 or not all(map(is_number, argument)):
        return None
    skip, limit = map(_int32, argument)
    return Slice(skip, limit) if limit > 0 else None


def _int32(value: Number) -> int:
    """The number as a 32-bit integer, rounded towards zero and limited to the range."""
    number = integral_value(value)
    if number is None:
        exact = real(value)
        if exact != exact:
            return 0
        number = int(max(min(exact, INT32_MAX), INT32_MIN))
    return max(min(number, INT32_MAX), INT32_MIN)


def parse_elem_match(components: Components, argument: Any, context: StageContext) -> Expression:
    """The first element of an array that matches a filter, in an array; missing if none does."""
    if not isinstance(argument, Mapping):
        raise CommandError(31274, f"$elemMatch needs an object as its argument, got {type_name(argument)}")
    if len(components) > 1:
        raise CommandError(31275, "Cannot use $elemMatch projection on a nested field.")
    (name,) = components
    matcher = compile_match(
        {name: {"$elemMatch": argument}}, variables=context.variables, collation=context.collation
    )

    def find(env: Environment) -> Any:
        value = env["ROOT"].get(name)
        if not isinstance(value, list):
            return MISSING
        position = matcher.array_position({name: value})
        return MISSING if position is None else [value[position]]

    return find


def at_position(document: dict[str, Any], components: Components, matcher: Matcher) -> dict[str, Any]:
    """The document with an array reduced to the element that made the document match its filter."""
    position = matcher.array_position(document)
    if position is None:
        raise CommandError(
            51246, "positional operator '.$' couldn't find a matching element in the array of the query"
        )
    result = _reduced(document, components, position)
    assert isinstance(result, dict), "a document stays one"
    return result


def _reduced(value: Any, components: Components, position: int) -> Any:
    if isinstance(value, list):
        if position >= len(value):
            raise CommandError(51247, "positional operator '.$' element mismatch")
        return [value[position]]
    if not components or not isinstance(value, dict) or components[0] not in value:
        return value
    return {**value, components[0]: _reduced(value[components[0]], components[1:], position)}
