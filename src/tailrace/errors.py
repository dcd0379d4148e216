"""Every exception of Tailrace, in one tree.

::

    TailraceError
    ├── CommandError        an error with MongoDB's code, name and labels
    │   ├── AccessError     a server refuses the user: a right is missing, or the password is wrong
    │   ├── BsonError       bytes that are not BSON (InvalidBSON)
    │   └── KeyStringError  bytes that are not a KeyString; the code names the fault
    ├── DamagedInputError   a file is truncated or corrupt: path, byte offset, reason
    ├── PipelineError       the Spark pipeline ended and a retry does not help
    ├── UsageError          the command line was used wrongly: one sentence with cause and remedy
    │   ├── HistoryError    a history that cannot be used as requested
    │   ├── PortError       an address that cannot be listened on
    │   └── SourceUnavailableError  a source that does not answer; a retry may help
    └── WireError           bytes that break the wire protocol: the connection has to be closed

They are raised where the fault is found, and never caught only to be logged; the wire server, the command
line and the Spark sources each translate them in one place.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tailrace.error_codes import ErrorCode, code_name

NON_RESUMABLE_LABEL = "NonResumableChangeStreamError"
NON_RESUMABLE_CODES = frozenset(
    {ErrorCode.ChangeStreamFatalError, ErrorCode.ChangeStreamHistoryLost, ErrorCode.ShardRemovedError}
)


class TailraceError(Exception):
    """Base class of all errors that Tailrace raises on purpose."""


class CommandError(TailraceError):
    """A failure for which MongoDB has a code.

    >>> error = CommandError(ErrorCode.ChangeStreamFatalError, "the resume token was not found")
    >>> error.code, error.code_name, error.labels
    (280, 'ChangeStreamFatalError', ('NonResumableChangeStreamError',))
    """

    def __init__(self, code: int, message: str, labels: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self._labels = tuple(labels)
        self.details: Mapping[str, Any] = {}
        """Further fields of the reply, such as `keyPattern` of a duplicate key."""

    @property
    def code_name(self) -> str:
        """The symbolic name, or ``Location<code>``."""
        return code_name(self.code)

    @property
    def labels(self) -> tuple[str, ...]:
        """The error labels that a server attaches."""
        if self.code in NON_RESUMABLE_CODES and NON_RESUMABLE_LABEL not in self._labels:
            return (*self._labels, NON_RESUMABLE_LABEL)
        return self._labels

    def __str__(self) -> str:
        return f"{self.message} ({self.code} {self.code_name})"

    def __reduce__(self) -> tuple[object, ...]:
        # The default rebuilds an exception from its `args`, which hold the message only; a Spark worker
        # sends its errors to the driver pickled.
        return _rebuild, (type(self), self.code, self.message, self._labels)


def _rebuild(cls: type[CommandError], code: int, message: str, labels: tuple[str, ...]) -> CommandError:
    error = cls.__new__(cls)
    CommandError.__init__(error, code, message, labels)
    return error


class AccessError(CommandError):
    """A server refuses the user: name or password are wrong, or a right is missing. A retry does not help."""


class BsonError(CommandError):
    """Bytes that are not a BSON document."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.InvalidBSON, message)


class KeyStringError(CommandError):
    """Bytes that are not a KeyString."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, f"KeyString format error: {message}")


class DamagedInputError(TailraceError):
    """A file that is truncated or cannot be read from some byte on."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class UsageError(TailraceError):
    """The command line, or a file given to it, was used wrongly."""


def missing_package(what: str, error: ImportError, extra: str = "spark") -> UsageError:
    """Return the error about a package that only an extra installs; ``what`` needs it."""
    return UsageError(
        f"{what} needs the package {error.name}, which is not installed; install it with "
        f"pip install 'tailrace[{extra}]'"
    )


class HistoryError(UsageError):
    """A history that is missing, belongs to another deployment, or does not continue where it should."""


class StoreUnavailableError(HistoryError):
    """The object store of a history does not answer; it may be back in a second."""


class PortError(UsageError):
    """An address that cannot be listened on: another program uses it, or the system refuses it."""


class SourceUnavailableError(UsageError):
    """The server of a source does not answer: it may be back in a second, or its address may be wrong."""


class PipelineError(TailraceError):
    """The Spark pipeline ended and a retry does not help: one sentence with cause and remedy."""


class WireError(TailraceError):
    """Bytes that break the wire protocol; the connection has to be closed."""
