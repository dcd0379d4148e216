"""``$push $addToSet $concatArrays $setUnion $mergeObjects``: accumulators that collect values."""

from collections.abc import Callable
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    Accumulator,
    AccumulatorParser,
    of_one_expression,
    value_key,
)
from tailrace.mongod.language.aggregation.memory.budget import exceeded, size_of
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.missing import MISSING
from tailrace.unused import LARGE, freed_in_pieces

_SET_OVERHEAD: Final = 64
"""What an element of a set takes besides its value."""


class Push:
    """``$push``: all values in the order of the documents, without missing ones."""

    __slots__ = ("_limit", "_size", "_values")

    name = "$push"

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._values: list[Any] = []

    def add(self, value: Any) -> int:
        if value is MISSING:
            return 0
        return self._append(value)

    def _append(self, value: Any) -> int:
        size = size_of(value)
        self._size += size
        if self._size > self._limit:
            raise exceeded(self.name, self._limit)
        self._values.append(value)
        if len(self._values) == LARGE:
            freed_in_pieces(self._values)
        return size

    def result(self) -> list[Any]:
        return list(self._values)

    def partial(self) -> list[Any]:
        return self._values

    def merge(self, partial: list[Any]) -> int:
        return sum(map(self._append, partial))


class ConcatArrays(Push):
    """``$concatArrays``: the elements of all arrays."""

    __slots__ = ()

    name = "$concatArrays"

    def add(self, value: Any) -> int:
        return 0 if value is MISSING else self.merge(_checked_array(self.name, value))


class AddToSet:
    """``$addToSet``: distinct values, in the order of first appearance (MongoDB does not define an order)."""

    __slots__ = ("_key", "_limit", "_size", "_values")

    name = "$addToSet"

    def __init__(self, key: Callable[[Any], Any], limit: int) -> None:
        self._key = key
        self._limit = limit
        self._size = 0
        self._values: dict[Any, Any] = {}

    def add(self, value: Any) -> int:
        return 0 if value is MISSING else self._include(value)

    def _include(self, value: Any) -> int:
        key = self._key(value)
        if key in self._values:
            return 0
        size = size_of(value) + _SET_OVERHEAD
        self._size += size
        if self._size > self._limit:
            raise exceeded(self.name, self._limit)
        self._values[key] = value
        if len(self._values) == LARGE:
            freed_in_pieces(self._values)
        return size

    def result(self) -> list[Any]:
        return list(self._values.values())

    def partial(self) -> list[Any]:
        return self.result()

    def merge(self, partial: list[Any]) -> int:
        return sum(map(self._include, partial))


class SetUnion(AddToSet):
    """``$setUnion``: the distinct elements of all arrays."""

    __slots__ = ()

    name = "$setUnion"

    def add(self, value: Any) -> int:
        return 0 if value is MISSING else self.merge(_checked_array(self.name, value))


def _checked_array(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise CommandError(
            ErrorCode.TypeMismatch, f"{name} requires array inputs, but input is of type {type_name(value)}"
        )
    return value


class MergeObjects:
    """``$mergeObjects``: the fields of all documents, each with its last value."""

    __slots__ = ("_merged",)

    def __init__(self) -> None:
        self._merged: dict[str, Any] = {}

    def add(self, value: Any) -> int:
        if is_nullish(value):
            return 0
        if not isinstance(value, dict):
            raise CommandError(
                40400, f"$mergeObjects requires object inputs, but input is of type {type_name(value)}"
            )
        new = {name: item for name, item in value.items() if name not in self._merged}
        self._merged.update(value)
        return size_of(new) if new else 0

    def result(self) -> dict[str, Any]:
        return dict(self._merged)

    def partial(self) -> dict[str, Any]:
        return self._merged

    def merge(self, partial: dict[str, Any]) -> int:
        return self.add(partial)


def _parse_list(name: str, spec: Any, scope: StageScope) -> Accumulator:
    limit = scope.memory.limits.push
    kind = Push if name == "$push" else ConcatArrays
    return Accumulator(scope.parse(spec), lambda _env: kind(limit))


def _parse_set(name: str, spec: Any, scope: StageScope) -> Accumulator:
    limit, key = scope.memory.limits.add_to_set, value_key(scope)
    kind = AddToSet if name == "$addToSet" else SetUnion
    return Accumulator(scope.parse(spec), lambda _env: kind(key, limit))


ACCUMULATORS: Final[dict[str, AccumulatorParser]] = {
    "$addToSet": _parse_set,
    "$concatArrays": _parse_list,
    "$mergeObjects": of_one_expression(MergeObjects),
    "$push": _parse_list,
    "$setUnion": _parse_set,
}
