"""Turns: what computes for long shares the time in which the event loop has nothing else to do.

`paced` runs a coroutine as always, but each of its steps in a greenlet. A `tick` (`pacing.py`) in the
middle of a step, at any depth of ordinary functions, can therefore leave it there, return to the loop, and
continue later. Between two steps no greenlet is needed, so there are only as many as computations that wait.

A step begins at once and is not interrupted for a millisecond, which is enough for most commands. What takes
longer waits for a *turn*. The loop's selector gives turns one after another, whenever no socket, no callback
and no writer wants the processor; a turn ends after some milliseconds, or as soon as one of these does. Where
that never happens, each fifth of the time is for turns all the same.

Nothing else changes for the coroutine: it has one task, and a cancellation is raised where it was left. So
`maxTimeMS`, killOp, a client that disconnects and the end of the server all end a computation.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from time import monotonic
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from tailrace.pacing import set_pacer

T = TypeVar("T")

_UNDISTURBED: Final = 0.001
"""Seconds that each step of a coroutine has before others are considered."""
_TURN: Final = 0.005
_LOOK: Final = 0.0003
"""Seconds between two looks for others. Each look releases Python's lock, which restarts the time that the
writer's thread waits for it (`SWITCH_SECONDS`); so it is longer than that."""
_HUNGRY: Final = 0.02
"""Seconds without a complete turn after which one is given to the next computation whatever else waits."""
_IDLE_GREENLETS: Final = 16

_NEVER: Final = float("inf")

_YIELDED: Final = 0
_RETURNED: Final = 1
_RAISED: Final = 2
_WAITS: Final = 3
_PAUSES: Final = 4


class Turns:
    """Whose turn it is in one event loop; the pacer of its thread."""

    def __init__(self, peek: Callable[[], bool] | None = None) -> None:
        """``peek`` returns whether a socket is ready; without it the selector of the loop gives no turns."""
        self._peek = peek
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._writers: list[Callable[[], bool]] = []
        self._fed = monotonic()
        self._idle: list[_Worker] = []
        # What computes now: when it looks for others, and when its turn ends.
        self._current: _Worker | None = None
        self._look_at = self._end = _NEVER
        self._is_undisturbed = False
        self._is_next_undisturbed = False

    def watch_writer(self, is_busy: Callable[[], bool]) -> None:
        """Let a writer's thread have the processor while it is busy."""
        self._writers.append(is_busy)

    def forget_writer(self, is_busy: Callable[[], bool]) -> None:
        """Undo `watch_writer`."""
        if is_busy in self._writers:
            self._writers.remove(is_busy)

    # -- the selector's side ----------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for a turn."""
        return bool(self._waiting)

    @property
    def is_writer_busy(self) -> bool:
        """Whether a writer's thread needs the processor."""
        return any(is_busy() for is_busy in self._writers)

    @property
    def is_overdue(self) -> bool:
        """Whether somebody has waited for too long."""
        return monotonic() - self._fed >= _HUNGRY

    def give(self, *, undisturbed: bool = False) -> None:
        """Let the first who waits compute; ``undisturbed`` for the whole turn."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._is_next_undisturbed = undisturbed
                if undisturbed:
                    self._fed = monotonic()
                return

    # -- steps ------------------------------------------------------------------------------------------

    def start(self, step: Callable[[Any], Any], argument: Any) -> "tuple[int, Any, _Worker]":
        """Take a step of a coroutine; returns what it has come to, and what has to be resumed then."""
        if self._peek is None:
            set_pacer(self)
        worker = self._idle.pop() if self._idle else _Worker()
        outcome = self._run(worker, monotonic() + _UNDISTURBED, 0.0, (step, argument))
        return (*outcome, worker)

    def resume(self, worker: "_Worker", result: Any, error: BaseException | None) -> tuple[int, Any]:
        """Continue a step that paused or waited."""
        self._is_undisturbed, self._is_next_undisturbed = self._is_next_undisturbed, False
        return self._run(worker, monotonic() + _LOOK, _TURN - _LOOK, (result, error))

    def _run(
        self, worker: "_Worker", look_at: float, rest: float, message: tuple[Any, Any]
    ) -> tuple[int, Any]:
        outer = self._current, self._look_at, self._end
        self._current, self._look_at, self._end = worker, look_at, look_at + rest
        outcome = worker.switch(message)
        self._current, self._look_at, self._end = outer
        if outcome[0] < _WAITS and len(self._idle) < _IDLE_GREENLETS:
            self._idle.append(worker)
        return outcome

    def wait(self) -> Generator[Any, None, None]:
        """Wait for a turn."""
        if self._peek is None:
            yield  # everything else that is ready comes first
            return
        if not self._waiting:
            # Nobody waited until now: time without computations makes nobody hungry.
            self._fed = max(self._fed, monotonic() - _HUNGRY / 2)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        yield from turn

    # -- the pacer ----------------------------------------------------------------------------------------

    def look(self) -> None:
        now = monotonic()
        if now < self._look_at or self._current is None:
            return
        if now >= self._end:
            self._fed = now
        elif self._is_undisturbed or not (self.is_writer_busy or (self._peek is not None and self._peek())):
            self._look_at = now + _LOOK
            return
        self._current.leave((_PAUSES, None))

    def give_way(self) -> None:
        """Wait for a turn, before a step that takes some ten milliseconds and cannot be interrupted."""
        if self._current is not None:
            self._current.leave((_PAUSES, None))

    def aside(self, work: Callable[[], T]) -> T:
        if self._current is None:
            return work()
        done = asyncio.get_running_loop().run_in_executor(None, work)
        return self._current.leave((_WAITS, done))  # type: ignore[no-any-return]

    def wait_for(self, answer: Future[T]) -> T:
        """Return the result of what runs in another thread, or raise its error; others run until then."""
        if self._current is None:
            return answer.result()
        # Others may wait for the same answer: one that ends does not cancel it.
        given = asyncio.wrap_future(answer)
        # If nobody waits any more, its error is not one of the loop.
        given.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        done = asyncio.shield(given)
        return self._current.leave((_WAITS, done))  # type: ignore[no-any-return]

    def pause(self, seconds: float) -> None:
        """Let others run for some time."""
        if self._current is None:
            time.sleep(seconds)
        else:
            self._current.leave((_WAITS, asyncio.ensure_future(asyncio.sleep(seconds))))


class _Worker:
    """A greenlet that takes steps of coroutines, and is left in the middle of one while others run."""

    def __init__(self) -> None:
        self._greenlet = greenlet(self._run)
        self._home = getcurrent()

    def switch(self, message: tuple[Any, Any]) -> tuple[int, Any]:
        """Begin a step, or continue one; returns at its end, or when it is left."""
        self._home = here = getcurrent()
        self._greenlet.gr_context = here.gr_context
        return self._greenlet.switch(message)  # type: ignore[no-any-return]

    def _run(self, message: tuple[Callable[[Any], Any], Any]) -> None:
        while True:
            outcome = _outcome(*message)
            del message
            message = self._home.switch(outcome)
            del outcome

    def leave(self, reason: tuple[int, Any]) -> Any:
        """Leave the step here; returns or raises when it is resumed."""
        result, error = self._home.switch(reason)
        if error is not None:
            try:
                raise error
            finally:
                del error
        return result


def _outcome(step: Callable[[Any], Any], argument: Any) -> tuple[int, Any]:
    try:
        return _YIELDED, step(argument)
    except StopIteration as stop:
        return _RETURNED, stop.value
    except BaseException as error:
        return _RAISED, error


class _Steps:
    """The steps of a coroutine, as one awaitable."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        turns = turns_of(asyncio.get_running_loop())
        step: Callable[[Any], Any] = self._coroutine.send
        argument: Any = None
        while True:
            kind, value, worker = turns.start(step, argument)
            while kind >= _WAITS:
                result, error = None, None
                try:
                    result = yield from (value if kind == _WAITS else turns.wait())
                except BaseException as raised:
                    error = raised
                kind, value = turns.resume(worker, result, error)
                del error
            if kind == _RETURNED:
                return value
            if kind == _RAISED:
                try:
                    raise value
                finally:
                    del value, argument
            step = self._coroutine.send
            try:
                argument = yield value
            except BaseException as raised:
                step, argument = self._coroutine.throw, raised


_plain: "WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]" = WeakKeyDictionary()


def turns_of(loop: asyncio.AbstractEventLoop) -> Turns:
    """The turns of a loop; in a loop of another kind than `event_loop.py` makes, after all that is ready."""
    turns = getattr(loop, "turns", None)
    if isinstance(turns, Turns):
        return turns
    found = _plain.get(loop)
    if found is None:
        found = _plain[loop] = Turns()
    return found


async def paced(work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Await ``work(*arguments)``; others have their turn at its ticks."""
    return await _Steps(work(*arguments))  # type: ignore[no-any-return]
