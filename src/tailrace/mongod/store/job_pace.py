"""How long a job may compute in the writer's thread, where all other writes wait for it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import monotonic, thread_time
from typing import Final, TypeVar

from tailrace.errors import CommandError

T = TypeVar("T")

SHARE_SECONDS: Final = 0.01
"""After these a job that can go on in another one ends, if others wait for it"""
_MOST_SECONDS: Final = 0.05
"""The same if nobody does: listeners get the entries of a job all at once, and it can be interrupted then"""
_LOOK: Final = 0.001
_ASIDE: Final = 0.5
"""How long a call may take that others would have in another thread"""
_SECONDS_TO_COMPUTE: Final = 0.02
"""How long a job that can be rehearsed computes in the writer's thread"""
_REHEARSALS: Final = 3
_MOST_SECONDS_TO_COMPUTE: Final = 1.0
"""The same after several rehearsals"""
_MOST_REHEARSALS: Final = 8
"""After these it has as long as it needs, and can only be interrupted"""


@dataclass(slots=True)
class WritePace:
    """What bounds the computation of a job in the writer's thread."""

    check: Callable[[], None] | None = None
    """Raises `CommandError` if the job has to end"""
    rehearse: Callable[[], bool] | None = None
    """Computes in the caller's thread what the job needs, with ticks; returns whether that is everything"""
    computing: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered for the time of a rehearsal: nothing of the job exists then, so it may be cancelled"""
    is_long: bool = False
    """Whether jobs of others go first"""
    begins_rehearsed: bool = False
    """Whether the job is rehearsed before it runs for the first time"""


UNPACED: Final = WritePace()


def seconds_to_compute(rehearsals: int) -> float | None:
    """How long a job computes in the writer's thread after so many rehearsals; None: as long as it needs.

    If what it computes changes too often for them, the writer computes, for a longer time.
    """
    if rehearsals >= _MOST_REHEARSALS:
        return None
    return _SECONDS_TO_COMPUTE if rehearsals < _REHEARSALS else _MOST_SECONDS_TO_COMPUTE


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
        self._seconds = seconds
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

    def end_step(self, now: float) -> None:
        """Note that a step of the job has ended: the next one may compute as long."""
        if self._seconds is not None:
            self._end = now + self._seconds

    def aside(self, work: Callable[[], T]) -> T:
        if self._end is not None and monotonic() + _ASIDE >= self._end:
            raise JobTakesLong
        return work()


class JobShare:
    """When a job has to end that can go on in another one."""

    def __init__(self, others_wait: Callable[[], bool]) -> None:
        self._others_wait = others_wait
        self.is_divided = False
        """Whether the jobs of others are in the same commit."""
        self._began = 0.0
        self._computed_before: float | None = None
        self._pacer: JobPacer | None = None

    def begin(self, pacer: JobPacer) -> None:
        self._began = monotonic()
        self._computed_before = None
        self._pacer = pacer

    def is_over(self, *, is_between: bool) -> bool:
        """Whether the step that has just ended is the last of its job.

        ``is_between``: whether this is between two oplog entries, so that it ends none early.
        """
        now = monotonic()
        passed = now - self._began
        if passed >= SHARE_SECONDS:
            if is_between:
                is_over = passed >= _MOST_SECONDS or self.is_divided or self._others_wait()
            else:
                # By its own time: what shares an entry must not depend on how busy the machine is.
                computed = thread_time()
                if self._computed_before is None:
                    self._computed_before = computed
                is_over = computed - self._computed_before >= _MOST_SECONDS
            if is_over:
                return True
        if self._pacer is not None:
            self._pacer.end_step(now)
        return False
