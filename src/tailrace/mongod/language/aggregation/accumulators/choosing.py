"""``$first $last $min $max``, and ``$firstN $lastN $minN $maxN``."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    Accumulator,
    AccumulatorParser,
    State,
    of_compared_expression,
    of_one_expression,
    value_key,
)
from tailrace.mongod.language.aggregation.memory.budget import exceeded, size_of
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.pacing import ticking
from tailrace.query.expressions import Environment
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.arrays.selection import checked_count
from tailrace.query.expressions.operands import is_nullish
from tailrace.query.missing import MISSING
from tailrace.query.step_sort import sorted_with_ticks


class First:
    """``$first``."""

    __slots__ = ("_value", "has_value")

    def __init__(self) -> None:
        self.has_value = False
        self._value: Any = None

    def add(self, value: Any) -> int:
        if self.has_value:
            return 0
        self.has_value = True
        self._value = value
        return 0 if value is MISSING else size_of(value)

    def result(self) -> Any:
        return self._value

    def partial(self) -> list[Any]:
        return _boxed(self._value)

    def merge(self, partial: list[Any]) -> int:
        return self.add(_unboxed(partial))


class Last:
    """``$last``."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: Any = MISSING

    def add(self, value: Any) -> int:
        before, self._value = self._value, value
        return (0 if value is MISSING else size_of(value)) - (0 if before is MISSING else size_of(before))

    def result(self) -> Any:
        return self._value

    def partial(self) -> list[Any]:
        return _boxed(self._value)

    def merge(self, partial: list[Any]) -> int:
        return self.add(_unboxed(partial))


def _boxed(value: Any) -> list[Any]:
    return [] if value is MISSING else [value]


def _unboxed(box: list[Any]) -> Any:
    return box[0] if box else MISSING


class _Extreme(ABC):
    """``$min`` and ``$max``; null and missing values are ignored."""

    __slots__ = ("_best", "_best_key", "_key")

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key
        self._best: Any = None
        self._best_key: Any = None

    def add(self, value: Any) -> int:
        if is_nullish(value):
            return 0
        key = self._key(value)
        if self._best_key is not None and not self._is_better(key):
            return 0
        before, self._best, self._best_key = self._best, value, key
        return size_of(value) - size_of(before)

    @abstractmethod
    def _is_better(self, key: Any) -> bool:
        """Whether a value with this key replaces the best one."""

    def result(self) -> Any:
        return self._best

    def partial(self) -> Any:
        return self._best

    def merge(self, partial: Any) -> int:
        return self.add(partial)


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


class _Several(ABC):
    """The states of accumulators with ``n``; a missing value is null."""

    __slots__ = ("_limit", "_size")

    name: str

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0

    def _grow(self, size: int) -> int:
        self._size += size
        if self._size > self._limit:
            how = "spilling to disk cannot reduce memory consumption any further"
            raise exceeded(self.name, self._limit, how)
        return size

    @abstractmethod
    def add(self, value: Any) -> int:
        """As in `State`."""

    @abstractmethod
    def result(self) -> list[Any]:
        """As in `State`."""

    def partial(self) -> list[Any]:
        return self.result()

    def merge(self, partial: list[Any]) -> int:
        return sum(map(self.add, partial))


class FirstN(_Several):
    """``$firstN``."""

    __slots__ = ("_count", "_values")

    name = "$firstN"

    def __init__(self, count: int, _key: Callable[[Any], Any], limit: int) -> None:
        super().__init__(limit)
        self._count = count
        self._values: list[Any] = []

    def add(self, value: Any) -> int:
        if len(self._values) >= self._count:
            return 0
        value = None if value is MISSING else value
        self._values.append(value)
        return self._grow(size_of(value))

    def result(self) -> list[Any]:
        return list(self._values)


class LastN(_Several):
    """``$lastN``."""

    __slots__ = ("_count", "_values")

    name = "$lastN"

    def __init__(self, count: int, _key: Callable[[Any], Any], limit: int) -> None:
        super().__init__(limit)
        self._count = count
        self._values: deque[Any] = deque()

    def add(self, value: Any) -> int:
        value = None if value is MISSING else value
        dropped = size_of(self._values.popleft()) if len(self._values) == self._count else 0
        self._values.append(value)
        return self._grow(size_of(value) - dropped)

    def result(self) -> list[Any]:
        return list(self._values)


class _ExtremeN(_Several):
    """``$minN`` and ``$maxN``: in order; null and missing values are ignored."""

    __slots__ = ("_count", "_held", "_key")

    is_descending: bool

    def __init__(self, count: int, key: Callable[[Any], Any], limit: int) -> None:
        super().__init__(limit)
        self._count = count
        self._key = key
        self._held: list[tuple[Any, Any]] = []

    def add(self, value: Any) -> int:
        if is_nullish(value):
            return 0
        self._held.append((self._key(value), value))
        size = size_of(value)
        if len(self._held) > 2 * self._count + 16 or self._size + size > self._limit:
            size -= self._cut()
        return self._grow(size)

    def _cut(self) -> int:
        """Drop what is not selected; returns its size."""
        self._held = sorted_with_ticks(self._held, reverse=self.is_descending)
        dropped = sum(size_of(value) for _, value in ticking(self._held[self._count :]))
        del self._held[self._count :]
        return dropped

    def result(self) -> list[Any]:
        self._size -= self._cut()
        return [value for _, value in self._held]


class MinN(_ExtremeN):
    """``$minN``."""

    __slots__ = ()

    name = "$minN"
    is_descending = False


class MaxN(_ExtremeN):
    """``$maxN``."""

    __slots__ = ()

    name = "$maxN"
    is_descending = True


def _of_count(not_object: int, state: Callable[[int, Callable[[Any], Any], int], State]) -> AccumulatorParser:
    """A parser for ``{input: <expression>, n: <expression of the group>}``."""

    def parse(name: str, spec: Any, scope: StageScope) -> Accumulator:
        specs = named_specs(
            name, spec, required={"n": 5787906, "input": 5787907}, not_object=not_object, unknown=5787901
        )
        count = scope.parse(specs["n"])
        key, limit = value_key(scope), scope.memory.limits.top

        def start(env: Environment) -> State:
            return state(checked_count(name, count(env)), key, limit)

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
