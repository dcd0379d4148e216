"""``$push $addToSet $concatArrays $setUnion $mergeObjects``: accumulators that collect values."""

from collections.abc import Callable
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    AccumulatorParser,
    of_compared_expression,
    of_one_expression,
)
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.missing import MISSING


class Push:
    """``$push``: all values in the order of the documents, without missing ones."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not MISSING:
            self._values.append(value)

    def result(self) -> list[Any]:
        return list(self._values)


class AddToSet:
    """``$addToSet``: distinct values, in the order of first appearance (MongoDB does not define an order)."""

    __slots__ = ("_key", "_values")

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key
        self._values: dict[Any, Any] = {}

    def add(self, value: Any) -> None:
        if value is not MISSING:
            self._values.setdefault(self._key(value), value)

    def result(self) -> list[Any]:
        return list(self._values.values())


class ConcatArrays:
    """``$concatArrays``: the elements of all arrays."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not MISSING:
            self._values += _checked_array("$concatArrays", value)

    def result(self) -> list[Any]:
        return list(self._values)


class SetUnion(AddToSet):
    """``$setUnion``: the distinct elements of all arrays."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        if value is not MISSING:
            for item in _checked_array("$setUnion", value):
                super().add(item)


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

    def add(self, value: Any) -> None:
        if is_nullish(value):
            return
        if not isinstance(value, dict):
            raise CommandError(
                40400, f"$mergeObjects requires object inputs, but input is of type {type_name(value)}"
            )
        self._merged.update(value)

    def result(self) -> dict[str, Any]:
        return dict(self._merged)


ACCUMULATORS: Final[dict[str, AccumulatorParser]] = {
    "$addToSet": of_compared_expression(AddToSet),
    "$concatArrays": of_one_expression(ConcatArrays),
    "$mergeObjects": of_one_expression(MergeObjects),
    "$push": of_one_expression(Push),
    "$setUnion": of_compared_expression(SetUnion),
}
