"""Let long computations give way: `tick` is where a computation can be interrupted or ended.

Code that can run for more than about 0.2 ms calls `tick` again and again, at any depth of ordinary functions:
once for each record, or for some dozens of elements. Where a server computes for a client, a *pacer* belongs
to the thread. It decides at each tick whether others get their turn first, and raises if the work has to end:
because its time is over, its client has gone, it was killed, or the server stops. Without a pacer `tick` does
nothing.

What callers can rely on, and what they have to respect:

* A tick costs less than 0.1 microseconds without a pacer, and about 0.2 with one.
* Others may run during a tick. Hold no lock across it, and expect shared state to have changed after it; the
  snapshot that a command reads has not.
* What it raises is never an `Exception`: only ``finally`` and ``except BaseException`` see it, and the latter
  has to raise it again.

>>> tick()
>>> [len(piece) for piece in pieces(list(range(100)), 48)]
[48, 48, 4]
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Pacer: TypeAlias = Callable[[], None]

STEPS: Final = 48
"""Steps of about five microseconds between two ticks, so that others wait for no longer than 0.3 ms."""


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
        pacer()


def pieces(items: Sequence[T], size: int = STEPS) -> Iterator[Sequence[T]]:
    """The items in pieces of at most ``size``, with a tick before each but the first."""
    if len(items) <= size:
        yield items
        return
    for start in range(0, len(items), size):
        if start:
            tick()
        yield items[start : start + size]


def set_pacer(pacer: Pacer | None) -> None:
    """Make ``pacer`` the one of this thread; None: ticks do nothing."""
    _thread.pacer = pacer


def has_pacer() -> bool:
    """Whether ticks of this thread do anything now."""
    return _thread.pacer is not None


@contextmanager
def unpaced() -> Iterator[None]:
    """Ticks do nothing inside: for what others must not see half done, and what must not end early."""
    before, _thread.pacer = _thread.pacer, None
    try:
        yield
    finally:
        _thread.pacer = before
