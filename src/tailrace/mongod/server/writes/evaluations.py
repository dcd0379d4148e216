"""What the statements of a write compute, kept from a rehearsal until the writer needs it.

A write runs in the writer's thread, and all other writes wait for it. If it computes for too long there, it
is undone and rehearsed in the event loop, where others have their turn at its ticks: on a snapshot, without
any effect. What is computed from a document is stored here under the document's bytes. Then the writer runs
it again, and computes only what depends on a document that has changed since.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.errors import CommandError

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

T = TypeVar("T")

_MOST_BYTES: Final = 64 << 20
_OVERHEAD: Final = 200


class RehearsalTooLarge(BaseException):
    """There is no room for more results."""


class Evaluations:
    """The results of one command's computations."""

    def __init__(self) -> None:
        self._results: dict[Any, Any] = {}
        self._errors: dict[Any, CommandError] = {}
        self._room = _MOST_BYTES
        self.is_rehearsing = False
        """Whether results are stored now."""

    def once(self, key: tuple[Any, ...], compute: Callable[[], T], size: int) -> T:
        """The stored result or error of a computation, which has about that ``size``; else it is computed."""
        if key in self._results:
            found: T = self._results[key]
            return found
        if key in self._errors:
            raise self._errors[key]
        try:
            result = compute()
        except CommandError as error:
            if self.is_rehearsing:
                self.spend(size)
                self._errors[key] = error
            raise
        if self.is_rehearsing:
            self.spend(size)
            self._results[key] = result
        return result

    def spend(self, size: int) -> None:
        """Use some of the room; raises `RehearsalTooLarge` if there is none."""
        self._room -= size + _OVERHEAD
        if self._room < 0:
            raise RehearsalTooLarge


def once(context: "Context", key: tuple[Any, ...], compute: Callable[[], T], size: int = 0) -> T:
    """Compute something; if the command was rehearsed, once for each key."""
    evaluations = context.evaluations
    return compute() if evaluations is None else evaluations.once(key, compute, size)
