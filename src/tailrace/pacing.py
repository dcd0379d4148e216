"""Let long computations give way: `tick` is where a computation can be interrupted or ended.

Code that can run for more than about 0.2 ms calls `tick` again and again, at any depth of ordinary functions:
once for each record, or for some dozens of elements. Where a server computes for a client, a *pacer* belongs
to the thread. It decides at each tick whether others get their turn first, and raises if the work has to end:
because its time is over, its client has gone, it was killed, or the server stops. Without a pacer `tick` does
nothing.

What callers can rely on, and what they have to respect:

* A tick costs about 0.1 microseconds without a pacer, and 0.2 with one.
* Others may run during a tick. Hold no lock across it, and expect shared state to have changed after it; the
  snapshot that a command reads has not.
* What it raises is never an `Exception`: only ``finally`` and ``except BaseException`` see it, and the latter
  has to raise it again.

>>> tick()
>>> [len(piece) for piece in pieces(list(range(100)), 48)]
[48, 48, 4]
>>> sum(ticking(range(100)))
4950
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

STEPS: Final = 48
"""Steps of about five microseconds between two ticks, so that others wait for no longer than 0.3 ms."""


class Pacer(Protocol):
    """Decides what happens at the ticks of a thread."""

    def look(self) -> None:
        """Called by every tick: let others run if it is time; raises if the work has to end."""

    def aside(self, work: Callable[[], T]) -> T:
        """Call a function that releases Python's lock, and let others run meanwhile."""


class _Thread(threading.local):
    pacer: Pacer | None = None


_thread: Final = _Thread()

steps_left: Final = [STEPS]
"""For the innermost loops: ``steps_left[0] -= 1`` for each step, and `tick` when it is negative."""


def tick() -> None:
    """Let others run if it is time for that; raises if this work has to end."""
    steps_left[0] = STEPS
    pacer = _thread.pacer
    if pacer is not None:
        pacer.look()


def spend(steps: int) -> None:
    """Count some steps of about five microseconds, and tick when there were enough."""
    steps_left[0] -= steps
    if steps_left[0] < 0:
        tick()


def is_paced() -> bool:
    """Whether ticks have an effect: where nobody waits, large values need not be divided."""
    return _thread.pacer is not None


def ticked(steps: Generator[None, None, T]) -> T:
    """The result of a computation that yields when others may run."""
    return finished(steps, tick)


def finished(steps: Generator[None, None, T], between: Callable[[], None] | None = None) -> T:
    """The result of a computation that yields; ``between`` is called each time, if it is given."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if between is not None:
            between()


def pieces(items: Sequence[T], size: int = STEPS) -> Iterator[Sequence[T]]:
    """The items in pieces of at most ``size``, with a tick before each but the first."""
    if len(items) <= size:
        yield items
        return
    for start in range(0, len(items), size):
        if start:
            tick()
        yield items[start : start + size]


def ticking(items: Sequence[T]) -> Iterable[T]:
    """The items, with ticks between some of them; for loops that compute something for each."""
    if len(items) > STEPS:
        return _in_pieces(items)
    steps_left[0] -= len(items)
    if steps_left[0] < 0:
        tick()
    return items


def _in_pieces(items: Sequence[T]) -> Iterator[T]:
    for piece in pieces(items):
        yield from piece
    tick()


def with_ticks(items: Iterable[T]) -> Iterator[T]:
    """The items, with a tick after each; where even one of them may take long."""
    for item in items:
        yield item
        tick()


def aside(work: Callable[[], T]) -> T:
    """Call a function that may take long in C and releases Python's lock there; like a tick before and after.

    With a pacer it runs in another thread while others have their turn. If this work has to end meanwhile, it
    continues there; so it should have a time limit.
    """
    pacer = _thread.pacer
    return work() if pacer is None else pacer.aside(work)


def set_pacer(pacer: Pacer | None) -> Pacer | None:
    """Make ``pacer`` the one of this thread, None for none; returns the one before."""
    before, _thread.pacer = _thread.pacer, pacer
    return before


@contextmanager
def unpaced() -> Iterator[None]:
    """Ticks do nothing inside: for what others must not see half done, and what must not end early."""
    before, _thread.pacer = _thread.pacer, None
    try:
        yield
    finally:
        _thread.pacer = before
