"""A server that reports what kept its event loop: ``python -m attack.held REPORT [ARGUMENT...]``.

The arguments are those of `tailrace`. Each time in which no tick and no look for sockets came for more than
`SECONDS` of the thread's own processor time is a line of the file REPORT: milliseconds, what was collected by
the garbage collector meanwhile, and the stack at its end, or the callback of the loop that has returned then.
So is a time of more than `WAITED_SECONDS` by the clock, with what the other threads do at its end.
"""

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tailrace.cli.main import main
from tailrace.mongod.server.net.event_loop import FairSelector
from tailrace.mongod.server.net.turns import Turns

SECONDS: Final = 0.005
WAITED_SECONDS: Final = 0.03
_FRAMES: Final = 9


class _Gaps:
    def __init__(self, report: Path) -> None:
        self._report = report.open("a", buffering=1)
        self._collecting = 0.0
        self.begin()

    def begin(self) -> None:
        self._collected = 0.0
        self._since, self._since_clock = time.thread_time(), time.perf_counter()

    def end(self, where: FrameType | asyncio.Handle) -> None:
        seconds = time.thread_time() - self._since
        by_clock = time.perf_counter() - self._since_clock
        if seconds < SECONDS and by_clock < WAITED_SECONDS:
            return
        shown = _shown(where) if isinstance(where, FrameType) else f"the end of {where!r}"
        if by_clock >= WAITED_SECONDS:
            others = (
                f"{thread.name}: {_shown(sys._current_frames()[thread.ident])}"
                for thread in threading.enumerate()
                if thread.ident in sys._current_frames() and thread is not threading.current_thread()
            )
            shown = f"{by_clock * 1000:.0f} ms by the clock; {shown}; {'; '.join(others)}"
        self._report.write(f"{seconds * 1000:.0f}\t{self._collected * 1000:.0f}\t{shown}\n")

    def collected(self, phase: str, _details: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._collecting = now
        else:
            self._collected += now - self._collecting


def _shown(frame: FrameType) -> str:
    stack = traceback.extract_stack(frame, _FRAMES)
    return " < ".join(f"{Path(one.filename).stem}.{one.name}:{one.lineno}" for one in reversed(stack))


def _watch(gaps: _Gaps, owner: type[Any], name: str) -> None:
    """End a gap when a method is called, and begin another when it returns."""
    method: Callable[..., Any] = getattr(owner, name)

    def watched(*arguments: Any, **options: Any) -> Any:
        gaps.end(sys._getframe(1))
        gaps.begin()
        try:
            return method(*arguments, **options)
        finally:
            gaps.begin()

    setattr(owner, name, watched)


def _watch_callbacks(gaps: _Gaps) -> None:
    """End a gap when a callback of the loop returns."""
    run: Callable[[asyncio.Handle], None] = asyncio.Handle._run

    def watched(handle: asyncio.Handle) -> None:
        run(handle)
        gaps.end(handle)
        gaps.begin()

    setattr(asyncio.Handle, "_run", watched)  # noqa: B010 - mypy cannot check an assignment


if __name__ == "__main__":
    _gaps = _Gaps(Path(sys.argv.pop(1)))
    gc.callbacks.append(_gaps.collected)
    _watch_callbacks(_gaps)
    _watch(_gaps, Turns, "look")
    _watch(_gaps, Turns, "aside")
    _watch(_gaps, FairSelector, "select")
    sys.exit(main())
