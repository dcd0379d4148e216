"""A server that reports what kept its event loop: ``python -m attack.held REPORT [ARGUMENT...]``.

The arguments are those of `tailrace`. Each time in which no tick and no look for sockets came for more than
`SECONDS` of the thread's own processor time is a line of the file REPORT: milliseconds, what was collected by
the garbage collector meanwhile, and the stack at its end, or the callback of the loop that has returned then.
"""

import asyncio
import gc
import sys
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
_FRAMES: Final = 9


class _Gaps:
    def __init__(self, report: Path) -> None:
        self._report = report.open("a", buffering=1)
        self._since = time.thread_time()
        self._collecting = self._collected = 0.0

    def begin(self) -> None:
        self._collected = 0.0
        self._since = time.thread_time()

    def end(self, where: FrameType | asyncio.Handle) -> None:
        seconds = time.thread_time() - self._since
        if seconds >= SECONDS:
            shown = f"the end of {where!r}"
            if isinstance(where, FrameType):
                stack = traceback.extract_stack(where, _FRAMES)
                shown = " < ".join(
                    f"{Path(one.filename).stem}.{one.name}:{one.lineno}" for one in reversed(stack)
                )
            self._report.write(f"{seconds * 1000:.0f}\t{self._collected * 1000:.0f}\t{shown}\n")

    def collected(self, phase: str, _details: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._collecting = now
        else:
            self._collected += now - self._collecting


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
