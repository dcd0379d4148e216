"""Turn errors of the driver into one-sentence errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, SourceUnavailableError, UsageError


def hosts_of(uri: str) -> str:
    """Return the hosts of a connection string, without its credentials.

    >>> hosts_of("mongodb://user:secret@a:1,b:2/?tls=true")
    'a:1,b:2'
    """
    return uri.partition("://")[2].rpartition("@")[2].partition("/")[0] or uri


@contextmanager
def driver_errors(uri: str) -> Iterator[None]:
    """Turn errors of PyMongo into `SourceUnavailableError`, the server's `CommandError`, or `UsageError`."""
    try:
        yield
    except ConnectionFailure as error:
        reason = str(error).partition(", Timeout:")[0]
        raise SourceUnavailableError(
            f"the source at {hosts_of(uri)} cannot be reached: {reason}; is it running, and is the URI right?"
        ) from error
    except OperationFailure as error:
        raise CommandError(error.code or ErrorCode.UnknownError, str(error)) from error
    except PyMongoError as error:
        raise UsageError(f"the source at {hosts_of(uri)} cannot be read: {error}") from error
