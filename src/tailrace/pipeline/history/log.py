"""Where the pipeline writes what happens; the command line gives it the log of its process."""

from typing import Any, Final, Protocol

COMPONENT: Final = "PIPELINE"


class Log(Protocol):
    """The part of a structured log that the pipeline needs."""

    def info(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """What happens in normal operation."""

    def warning(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """What is likely not wanted."""

    def error(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """What went wrong."""


class NoLog:
    """For callers that look at the history itself."""

    def info(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """Nobody reads it."""

    def warning(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """Nobody reads it."""

    def error(self, component: str, message: str, context: str = "-", **attributes: Any) -> None:
        """Nobody reads it."""
