"""What ended a query, as one sentence: Spark reports a fault in a worker as text with a traceback in it."""

import re
from dataclasses import dataclass
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import TailraceError

_RAISED: Final = re.compile(r"^(?:\w+: )?tailrace\.[\w.]+: (?P<text>.+)$", re.MULTILINE)
"""The last line of a traceback, where one of our own exceptions was raised"""
_CODE: Final = re.compile(r"\((\d+) \w+\)$")
_UNREACHABLE: Final = " cannot be reached: "
_PASSING_CODES: Final = frozenset(
    int(code)
    for code in (
        ErrorCode.InterruptedAtShutdown,
        ErrorCode.InterruptedDueToReplStateChange,
        ErrorCode.NotWritablePrimary,
        ErrorCode.CursorNotFound,
    )
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a query ended, and whether trying again can help."""

    sentence: str
    may_pass: bool
    """Trying again may help: a process went away, or the source did."""
    is_outside: bool = False
    """The source does not answer: it may be back in a moment or in an hour."""


def from_exception(error: BaseException) -> Failure:
    """What an exception of the driver or of a streaming query means.

    >>> from tailrace.errors import CommandError
    >>> from_exception(CommandError(ErrorCode.ChangeStreamHistoryLost, "the oplog was cut"))
    Failure(sentence='the oplog was cut (286 ChangeStreamHistoryLost)', may_pass=False, is_outside=False)
    """
    if isinstance(error, TailraceError):
        return _of_ours(str(error))
    text = str(error)
    raised = _RAISED.findall(text)
    if raised:
        return _of_ours(raised[-1])
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return Failure(f"the query ended: {first}", may_pass=True)


def _of_ours(sentence: str) -> Failure:
    code = _CODE.search(sentence)
    passing = _UNREACHABLE in sentence or (code is not None and int(code[1]) in _PASSING_CODES)
    return Failure(sentence, passing, passing)
