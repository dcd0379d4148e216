"""What a spec test came to."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Status(StrEnum):
    """The three ends of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one test, with a reason unless it passed."""

    file: Path
    test: str
    status: Status
    reason: str = ""


class Mismatch(Exception):  # noqa: N818 - it is a finding, not a fault
    """The server or the driver did something else than a test expects; the message says what and where."""


class Unsupported(Exception):  # noqa: N818
    """A test file asks for something that the runner does not know."""


class NotApplicable(Exception):  # noqa: N818
    """A test does not apply to this server, for the reason in the message."""
