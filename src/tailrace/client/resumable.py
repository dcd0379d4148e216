"""Decide whether a change stream resumes after an error of getMore: the specification's "Resumable Error"."""

from dataclasses import dataclass
from typing import Final

CURSOR_NOT_FOUND: Final = 43
RESUMABLE_LABEL: Final = "ResumableChangeStreamError"
LABELS_SINCE: Final = 9
"""The wire version of MongoDB 4.4, the first that labels resumable errors."""

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
"""The resumable errors of servers before 4.4."""

STATE_CHANGE_CODES: Final = frozenset({91, 189, 10107, 11600, 11602, 13435, 13436})
"""What a member answers while it steps down, recovers or ends: resumable in every release.

A member that recovers refuses a getMore before it looks at the cursor, so that the error has no label (seen
on 6.0.27). PyMongo resumes after these errors, too.
"""


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """What is relevant for resuming about a command that failed."""

    from_server: bool
    """The server replied with an error; otherwise there was no reply."""
    code: int | None = None
    labels: frozenset[str] = frozenset()
    wire_version: int = 0
    """of the connection on which the command failed; another server may have taken over since"""
    timed_out: bool = False
    """The application's `timeoutMS` has expired."""
    misuse: bool = False
    """The error is neither a reply nor a network error, for example because the client is closed."""


def is_resumable(failure: CommandFailure) -> bool:
    """Whether the stream resumes after a getMore failed like this.

    >>> is_resumable(CommandFailure(from_server=False))
    True
    >>> is_resumable(CommandFailure(from_server=True, code=6, wire_version=8))
    True
    >>> is_resumable(CommandFailure(from_server=True, code=6, wire_version=9))
    False
    >>> is_resumable(CommandFailure(from_server=True, code=13436, wire_version=9))
    True
    """
    if failure.misuse:
        return False
    if not failure.from_server or failure.code == CURSOR_NOT_FOUND or failure.code in STATE_CHANGE_CODES:
        return True
    if failure.wire_version >= LABELS_SINCE:
        return RESUMABLE_LABEL in failure.labels
    return failure.code in RESUMABLE_CODES
