"""Turn errors of the driver into one-sentence errors."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import unquote_plus

from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from tailrace.error_codes import ErrorCode
from tailrace.errors import AccessError, CommandError, SourceUnavailableError, UsageError

_APPENDED: Final = re.compile(
    r",? full error: |, Timeout: | \(configured timeouts: |, Topology Description: "
)


def hosts_of(uri: str) -> str:
    """Return the hosts of a connection string, without its credentials.

    >>> hosts_of("mongodb://user:secret@a:1,b:2/?tls=true")
    'a:1,b:2'
    """
    return uri.partition("://")[2].rpartition("@")[2].partition("/")[0] or uri


def user_of(uri: str) -> str | None:
    """Return the user that a connection string names.

    >>> user_of("mongodb://some%20one:secret@a:1/"), user_of("mongodb://a:1,b:2/")
    ('some one', None)
    """
    credentials, at, _ = uri.partition("://")[2].partition("/")[0].rpartition("@")
    return unquote_plus(credentials.partition(":")[0]) if at else None


@contextmanager
def driver_errors(uri: str, right: str) -> Iterator[None]:
    """Turn errors of PyMongo into `SourceUnavailableError`, the server's `CommandError`, or `UsageError`.

    ``right`` is what the user of the connection string needs for the commands of the block, such as
    ``find on local.oplog.rs``.
    """
    try:
        yield
    except ConnectionFailure as error:
        raise SourceUnavailableError(
            f"the source at {hosts_of(uri)} cannot be reached: {in_brief(error)}; is it running, and is the "
            "URI right?"
        ) from error
    except OperationFailure as error:
        raise command_error(error, uri, right) from None
    except PyMongoError as error:
        raise UsageError(f"the source at {hosts_of(uri)} cannot be read: {in_brief(error)}") from error


def in_brief(error: BaseException) -> str:
    """What a driver's error says, without the settings and descriptions that it appends.

    >>> in_brief(ConnectionFailure("a:1: refused (configured timeouts: connectTimeoutMS: 20000.0ms)"))
    'a:1: refused'
    >>> in_brief(PyMongoError("no primary, full error: {'ok': 0.0, 'code': 10107}"))
    'no primary'
    """
    return _APPENDED.split(str(error), maxsplit=1)[0]


def command_error(error: OperationFailure, uri: str, right: str) -> CommandError:
    """Return the error of a server's reply, in one sentence.

    A server quotes the whole command when it refuses a user, with the signature of its cluster time.
    """
    code = error.code or ErrorCode.UnknownError
    host, user = hosts_of(uri), user_of(uri)
    if code == ErrorCode.AuthenticationFailed:
        return AccessError(code, f"{host} refuses the name or the password of the user {user}")
    if code == ErrorCode.Unauthorized and user is None and "authmechanism" not in uri.lower():
        return AccessError(code, f"{host} requires a user; name one in the URI, as mongodb://NAME@HOST/")
    if code == ErrorCode.Unauthorized:
        name = "the user" if user is None else f"the user {user}"
        return AccessError(
            code, f"{name} lacks a right at {host}: {right}; docs/rights.md has the commands that grant it"
        )
    details = error.details if isinstance(error.details, Mapping) else {}
    return CommandError(code, str(details.get("errmsg", "the server gave no reason")))
