"""The type of a window function, and the arguments for its compilation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.query.expressions.operands import type_name
from tailrace.query.sorting import Ordering

WindowFunction: TypeAlias = Callable[[Partition], Iterable[Any]]
"""From a partition to a value for each of its documents"""


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A function in ``output``: ``{<name>: <argument>, window: <window>}``."""

    name: str
    argument: Any
    window: Any
    """None if it is not given"""
    ordering: Ordering | None
    scope: StageScope

    def refuse_window(self, code: int = ErrorCode.FailedToParse) -> None:
        """For functions that always use the whole partition."""
        if self.window is not None:
            raise CommandError(code, f"{self.name} does not accept a 'window' field")

    def require_order(self, code: int = ErrorCode.FailedToParse) -> None:
        """For functions whose value depends on the order."""
        if self.ordering is None:
            raise CommandError(code, f"{self.name} requires a sortBy")

    def require_single_path(self, code: int = ErrorCode.FailedToParse) -> None:
        """For functions that compute with the value of the sort field."""
        if self.ordering is None or len(self.ordering.paths) != 1:
            raise CommandError(code, f"{self.name} requires a sortBy of exactly one field")

    def options(self, *, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
        """The argument as a document of named options."""
        if not isinstance(self.argument, Mapping):
            raise failed(f"{self.name} expects an object as its argument, not {type_name(self.argument)}")
        for option in self.argument:
            if option not in required and option not in optional:
                raise failed(f"{self.name} got an unexpected argument: {option}")
        for option in required:
            if option not in self.argument:
                raise failed(f"{self.name} requires '{option}'")
        return self.argument


FunctionParser: TypeAlias = Callable[[WindowCall], WindowFunction]


def failed(message: str) -> CommandError:
    """The error for most faults of a window function."""
    return CommandError(ErrorCode.FailedToParse, message)
