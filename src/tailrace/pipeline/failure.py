"""Decide by exception class why a Spark query ended and whether a retry may help.

Spark reports an error of a Python worker as text: its own words around the worker's traceback, which ends in
a line ``module.Class: message``. `reported_error` reads class, code and sentence from that line, so that an
error means the same wherever it was raised.
"""

import re
from dataclasses import dataclass
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import (
    AccessError,
    CommandError,
    PipelineError,
    SourceUnavailableError,
    StoreUnavailableError,
    TailraceError,
    UsageError,
)

_RAISED: Final = re.compile(r"^(?:\w+: )?tailrace(?:\.\w+)*\.(?P<name>\w+): (?P<text>.+)$", re.MULTILINE)
_COMMAND_ERROR: Final = re.compile(r"(?P<message>.*) \((?P<code>\d+) \w+\)", re.DOTALL)
"""What `CommandError.__str__` writes."""
_WITHOUT_TAILRACE: Final = "ModuleNotFoundError: No module named 'tailrace'"
_PASSING_CODES: Final = frozenset(
    int(code)
    for code in (
        ErrorCode.HostUnreachable,
        ErrorCode.HostNotFound,
        ErrorCode.CursorNotFound,
        ErrorCode.NetworkTimeout,
        ErrorCode.ShutdownInProgress,
        ErrorCode.FailedToSatisfyReadPreference,
        ErrorCode.ReadConcernMajorityNotAvailableYet,
        ErrorCode.CappedPositionLost,  # the next attempt finds out whether entries were lost
        ErrorCode.QueryPlanKilled,
        ErrorCode.PrimarySteppedDown,
        ErrorCode.CursorKilled,
        ErrorCode.SnapshotUnavailable,
        ErrorCode.ExceededTimeLimit,
        ErrorCode.SocketException,
        ErrorCode.NotWritablePrimary,
        ErrorCode.InterruptedAtShutdown,
        ErrorCode.Interrupted,
        ErrorCode.InterruptedDueToReplStateChange,
        ErrorCode.NotPrimaryNoSecondaryOk,
        ErrorCode.NotPrimaryOrSecondary,
    )
)
"""A server that answers with one of these is stopping, starting, or elects another primary."""


@dataclass(frozen=True, slots=True)
class ReportedError:
    """One of our exceptions, as far as its traceback shows it."""

    kind: type[TailraceError]
    """Its class; `TailraceError` if the class is not loaded here."""
    sentence: str

    def command_error(self) -> CommandError | None:
        """Rebuild a `CommandError`; None if it is another exception."""
        found = _COMMAND_ERROR.fullmatch(self.sentence)
        if found is None or not issubclass(self.kind, CommandError):
            return None
        return CommandError(int(found["code"]), found["message"])


def reported_error(error: BaseException) -> ReportedError | None:
    r"""Find the exception of ours that an exception is or reports; None if there is none.

    >>> trace = "Job aborted: Traceback ...\ntailrace.errors.CommandError: gone (286 HistoryLost)\n at org"
    >>> reported_error(RuntimeError(trace)).command_error().code
    286
    """
    if isinstance(error, TailraceError):
        return ReportedError(type(error), str(error))
    raised = _RAISED.findall(str(error))
    if not raised:
        return None
    name, text = raised[-1]
    return ReportedError(_classes().get(name, TailraceError), text)


def _classes() -> dict[str, type[TailraceError]]:
    """All exception classes of ours, by name."""
    found: dict[str, type[TailraceError]] = {}
    waiting: list[type[TailraceError]] = [TailraceError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query ended."""

    sentence: str
    is_retryable: bool
    """A retry may help: a process was killed, or the source does not answer."""
    is_source_away: bool = False
    """The source does not answer: it may be back in a moment or in an hour."""
    is_users: bool = False
    """Somebody has to change the command, the source or its rights."""

    def error(self) -> TailraceError:
        """Return the error with which a job ends that does not try again."""
        return UsageError(self.sentence) if self.is_users else PipelineError(self.sentence)


def failure_of(error: BaseException) -> Failure:
    """Classify an exception of the driver or of a streaming query.

    >>> failure = failure_of(CommandError(ErrorCode.ChangeStreamHistoryLost, "gone"))
    >>> failure.is_retryable, failure.sentence
    (False, 'gone (286 ChangeStreamHistoryLost)')
    """
    reported = reported_error(error)
    if reported is None and _WITHOUT_TAILRACE in str(error):
        return Failure(
            "an executor has no Tailrace; install it on every worker, or send it with --archives",
            is_retryable=False,
        )
    if reported is None:
        lines = (line.strip() for line in str(error).splitlines())
        first = next((line for line in lines if line), type(error).__name__)
        return Failure(f"the query ended: {first}", is_retryable=True)
    command_error = reported.command_error()
    is_away = issubclass(reported.kind, SourceUnavailableError | StoreUnavailableError) or (
        command_error is not None and command_error.code in _PASSING_CODES
    )
    is_users = not is_away and issubclass(reported.kind, UsageError | AccessError)
    return Failure(reported.sentence, is_away, is_away, is_users)
