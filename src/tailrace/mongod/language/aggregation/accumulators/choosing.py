"""``$first $last $min $max``, and ``$firstN $lastN $minN $maxN``."""

from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    Accumulator,
    AccumulatorParser,
    State,
    of_compared_expression,
    of_one_expression,
    value_key,
)
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.query.expressions import Environment
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.arrays.selection import checked_count
from tailrace.query.expressions.operands import is_nullish
from tailrace.query.missing import MISSING


class First:
    """``$first``."""

    __slots__ = ("_value", "has_value")

    def __init__(self) -> None:
        self.has_value = False
        self._value: Any = None

    def add(self, value: Any) -> None:
        if not self.has_value:
            self.has_value = True
            self._value = value

    def result(self) -> Any:
        return self._value


class Last:
    """``$last``."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: Any = None

    def add(self, value: Any) -> None:
        self._value = value

    def result(self) -> Any:
        return self._value


class _Extreme:
    """``$min`` and ``$max``; null and missing values are ignored."""

    __slots__ = ("_best", "_best_key", "_key")

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key
        self._best: Any = None
        self._best_key: Any = None

    def add(self, value: Any) -> None:
        if is_nullish(value):
            return
        key = self._key(value)
        if self._best_key is None or self._is_better(key):
            self._best, self._best_key = value, key

    def _is_better(self, key: Any) -> bool:
        raise NotImplementedError

    def result(self) -> Any:
        return self._best


class Minimum(_Extreme):
    """``$min``."""

    __slots__ = ()

    def _is_better(self, key: Any) -> bool:
        return bool(key < self._best_key)


class Maximum(_Extreme):
    """``$max``."""

    __slots__ = ()

    def _is_better(self, key: Any) -> bool:
        return bool(key > self._best_key)


class FirstN:
    """``$firstN``; a missing value is null."""

    __slots__ = ("_count", "_values")

    def __init__(self, count: int, _key: Callable[[Any], Any]) -> None:
        self._count = count
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if len(self._values) < self._count:
            self._values.append(None if value is MISSING else value)

    def result(self) -> list[Any]:
        return list(self._values)


class LastN:
    """``$lastN``; a missing value is null."""

    __slots__ = ("_values",)

    def __init__(self, count: int, _key: Callable[[Any], Any]) -> None:
        self._values: deque[Any] = deque(maxlen=min(count, 2**31 - 1))

    def add(self, value: Any) -> None:
        self._values.append(None if value is MISSING else value)

    def result(self) -> list[Any]:
        return list(self._values)


class _ExtremeN:
    """``$minN`` and ``$maxN``: in order; null and missing values are ignored."""

    __slots__ = ("_count", "_held", "_key")

    is_descending: bool

    def __init__(self, count: int, key: Callable[[Any], Any]) -> None:
        self._count = count
        self._key = key
        self._held: list[tuple[Any, Any]] = []

    def add(self, value: Any) -> None:
        if is_nullish(value):
            return
        self._held.append((self._key(value), value))
        if len(self._held) > 2 * self._count + 16:
            self._cut()

    def _cut(self) -> None:
        self._held.sort(key=itemgetter(0), reverse=self.is_descending)
        del self._held[self._count :]

    def result(self) -> list[Any]:
        self._cut()
        return [value for _, value in self._held]


class MinN(_ExtremeN):
    """``$minN``."""

    __slots__ = ()
    is_descending = False


class MaxN(_ExtremeN):
    """``$maxN``."""

    __slots__ = ()
    is_descending = True


def _of_count(not_object: int, state: Callable[[int, Callable[[Any], Any]], State]) -> AccumulatorParser:
    """A parser for ``{input: <expression>, n: <expression of the group>}``."""

    def parse(name: str, spec: Any, scope: StageScope) -> Accumulator:
        specs = named_specs(
            name, spec, required={"n": 5787906, "input": 5787907}, not_object=not_object, unknown=5787901
        )
        count = scope.parse(specs["n"])
        key = value_key(scope)

        def start(env: Environment) -> State:
            return state(checked_count(name, count(env)), key)

        return Accumulator(scope.parse(specs["input"]), start)

    return parse


ACCUMULATORS: Final[dict[str, AccumulatorParser]] = {
    "$first": of_one_expression(First),
    "$firstN": _of_count(5787801, FirstN),
    "$last": of_one_expression(Last),
    "$lastN": _of_count(5787801, LastN),
    "$max": of_compared_expression(Maximum),
    "$maxN": _of_count(5787900, MaxN),
    "$min": of_compared_expression(Minimum),
    "$minN": _of_count(5787900, MinN),
}
