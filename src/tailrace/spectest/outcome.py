"""The outcome of a spec test, and the exceptions that decide it."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one test, with a reason unless it passed."""

    file: Path
    test: str
    status: Status
    reason: str = ""


class Mismatch(Exception):  # noqa: N818 - a result, not an error
    """The server or the driver did not do what a test expects; the message contains what and where."""


class Unsupported(Exception):  # noqa: N818
    """A test file uses a feature that the runner does not support."""


class NotApplicable(Exception):  # noqa: N818
    """A test does not apply to this server, for the reason in the message."""
