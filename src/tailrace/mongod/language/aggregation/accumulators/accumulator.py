"""The type of an accumulator: an expression evaluated for every document and a state."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from tailrace.bson.compare import sort_key
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.query.expressions import Environment, Expression


class State(Protocol):
    """The state of an accumulator for one group."""

    def add(self, value: Any) -> int:
        """Add the argument's value for the next document; it may be `MISSING`.

        Returns how many bytes more it holds, about; raises ExceededMemoryLimit if it may not hold them.
        """

    def result(self) -> Any:
        """The result so far; does not change the state, and more values may follow."""

    def partial(self) -> Any:
        """The state as a BSON value."""

    def merge(self, partial: Any) -> int:
        """Add what another state, of later documents of the same group, has as its `partial`."""


class Accumulator(NamedTuple):
    """A compiled accumulator."""

    argument: Expression
    start: Callable[[Environment], State]
    """Creates the state of a group; the environment's root is the group's ``_id``, which ``n`` may use"""


AccumulatorParser: TypeAlias = Callable[[str, Any, StageScope], Accumulator]


def of_one_expression(state: Callable[[], State]) -> AccumulatorParser:
    """A parser for an accumulator whose argument is one expression."""

    def parse(_name: str, spec: Any, scope: StageScope) -> Accumulator:
        return Accumulator(scope.parse(spec), lambda _env: state())

    return parse


def of_compared_expression(state: Callable[[Callable[[Any], Any]], State]) -> AccumulatorParser:
    """`of_one_expression` for an accumulator that compares values: its state gets the sort key function."""

    def parse(_name: str, spec: Any, scope: StageScope) -> Accumulator:
        key = value_key(scope)
        return Accumulator(scope.parse(spec), lambda _env: state(key))

    return parse


def value_key(scope: StageScope) -> Callable[[Any], Any]:
    """The sort key function under the pipeline's collation."""
    string_key = scope.string_key
    return sort_key if string_key is None else lambda value: sort_key(value, string_key)
