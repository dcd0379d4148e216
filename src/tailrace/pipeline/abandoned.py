"""Tasks that a query does not want to the end, as with `limit`, leave no traceback."""

import sys
from types import TracebackType
from typing import Any, Final, TextIO

_DAEMON: Final = "pyspark.daemon"


def expect_to_be_abandoned() -> None:
    """Let PySpark's daemon print nothing, in this worker, if Spark closes the connection before the end.

    Spark does so as soon as it has what it wants. The worker then cannot write what is left, and ends; the
    daemon's function around it prints a traceback before. Everything else is printed as before. Modules that
    workers import call this when they are imported: workers create sources and plan queries, too.
    """
    if _is_of_daemon(vars(sys.modules["__main__"])) and not isinstance(sys.stderr, _WorkerErrors):
        sys.stderr = _WorkerErrors(sys.stderr)


class _WorkerErrors:
    """Standard error of a worker, without what the daemon prints about a closed connection."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        handled = sys.exc_info()[1]
        if isinstance(handled, BrokenPipeError | ConnectionResetError) and _is_raised_in_daemon(handled):
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _is_raised_in_daemon(error: OSError) -> bool:
    """Whether the function that failed is the daemon's own, and not one that it has called."""
    place: TracebackType | None = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and _is_of_daemon(place.tb_frame.f_globals)


def _is_of_daemon(module: dict[str, Any]) -> bool:
    return getattr(module.get("__spec__"), "name", None) == _DAEMON
