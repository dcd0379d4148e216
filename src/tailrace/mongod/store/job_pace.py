"""How long a job may compute in the writer's thread, where all other writes wait for it."""

from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

from tailrace.errors import CommandError

T = TypeVar("T")

_LOOK: Final = 0.001


class JobEnded(BaseException):
    """The command of a job has to end."""

    def __init__(self, error: CommandError) -> None:
        super().__init__(error)
        self.error = error


class JobTakesLong(BaseException):
    """A job computes for too long; its caller can compute elsewhere and submit it again."""


class JobPacer:
    """The pacer of one job: its ticks end it, and never let others run."""

    def __init__(self, check: Callable[[], None] | None, seconds: float | None) -> None:
        """``check`` raises `CommandError` if the job has to end; ``seconds`` None is no limit."""
        now = monotonic()
        self._check = check
        self._end = None if seconds is None else now + seconds
        self._look_at = now + _LOOK

    def look(self) -> None:
        now = monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK
        if self._check is not None:
            try:
                self._check()
            except CommandError as error:
                raise JobEnded(error) from None
        if self._end is not None and now >= self._end:
            raise JobTakesLong

    def aside(self, work: Callable[[], T]) -> T:
        if self._end is not None:
            raise JobTakesLong
        return work()
