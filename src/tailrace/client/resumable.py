"""Which errors of a getMore a change stream resumes after: the specification's "Resumable Error".

A pure predicate. The wire version is that of the connection on which the command failed; the server may have
been replaced by another one since.
"""

from dataclasses import dataclass
from typing import Final

CURSOR_NOT_FOUND: Final = 43
RESUMABLE_LABEL: Final = "ResumableChangeStreamError"
LABELS_SINCE: Final = 9
"""The wire version of MongoDB 4.4, from which on the server says by a label what is resumable."""

RESUMABLE_CODES: Final = frozenset(
    {
        6,      # HostUnreachable
        7,      # HostNotFound
        89,     # NetworkTimeout
        91,     # ShutdownInProgress
        189,    # PrimarySteppedDown
        262,    # ExceededTimeLimit
        9001,   # SocketException
        10107,  # NotWritablePrimary
        11600,  # InterruptedAtShutdown
        11602,  # InterruptedDueToReplStateChange
        13435,  # NotPrimaryNoSecondaryOk
        13436,  # NotPrimaryOrSecondary
        63,     # StaleShardVersion
        150,    # StaleEpoch
        13388,  # StaleConfig
        234,    # RetryChangeStream
        133,    # FailedToSatisfyReadPreference
    }
)  # fmt: skip
"""What servers before 4.4 meant by the label."""


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """A failed command, as far as the rules of resuming look at it."""

    from_server: bool
    """The server answered with an error; else the answer did not come."""
    code: int | None = None
    labels: frozenset[str] = frozenset()
    wire_version: int = 0
    """of the connection that the command went over"""
    timed_out: bool = False
    """The time that the application gave the operation is over."""
    misuse: bool = False
    """The driver refused to send the command at all, for instance because the client is closed."""


def is_resumable(failure: CommandFailure) -> bool:
    """Whether a getMore that failed so is to be followed by a resume.

    >>> is_resumable(CommandFailure(from_server=False))
    True
    >>> is_resumable(CommandFailure(from_server=True, code=6, wire_version=8))
    True
    >>> is_resumable(CommandFailure(from_server=True, code=6, wire_version=9))
    False
    """
    if failure.misuse:
        return False
    if not failure.from_server or failure.code == CURSOR_NOT_FOUND:
        return True
    if failure.wire_version >= LABELS_SINCE:
        return RESUMABLE_LABEL in failure.labels
    return failure.code in RESUMABLE_CODES
