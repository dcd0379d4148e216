"""What servers of a source answer when they do not answer: one sentence, or the server's own error."""

from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError


def hosts_of(uri: str) -> str:
    """Where a connection string leads, without its credentials.

    >>> hosts_of("mongodb://user:secret@a:1,b:2/?tls=true")
    'a:1,b:2'
    """
    return uri.partition("://")[2].rpartition("@")[2].partition("/")[0] or uri


@contextmanager
def speaking_to(uri: str) -> Iterator[None]:
    """Turn what PyMongo raises into one sentence, or into the server's own error."""
    try:
        yield
    except ConnectionFailure as error:
        reason = str(error).partition(", Timeout:")[0]
        raise UsageError(
            f"the source at {hosts_of(uri)} cannot be reached: {reason}; is it running, and is the URI right?"
        ) from error
    except OperationFailure as error:
        raise CommandError(error.code or ErrorCode.UnknownError, str(error)) from error
    except PyMongoError as error:
        raise UsageError(f"the source at {hosts_of(uri)} cannot be read: {error}") from error
