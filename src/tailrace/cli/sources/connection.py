"""The connection string of a command, and where its password comes from.

Every user of a machine sees the arguments of its processes, so a password in them is refused. It comes from a
file, from the environment, or is typed.
"""

import argparse
import getpass
import os
import re
import sys
from pathlib import Path
from typing import Final

from tailrace.errors import UsageError
from tailrace.sources.deployments.connection_string import ConnectionString, read_secret, with_password
from tailrace.sources.recorded.via import Via

SOURCE_VARIABLE: Final = "TAILRACE_SOURCE"
PASSWORD_VARIABLE: Final = "TAILRACE_PASSWORD"
_ADDRESSES: Final = re.compile(r"(?:[\w.-]+@)?[\w.-]+:\d+(?:,[\w.-]+:\d+)*(?:/.*)?")


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source-file",
        metavar="FILE",
        type=Path,
        help="a file with the whole connection string, instead of one in the arguments",
    )
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        type=Path,
        help="a file with the password of the user that the connection string names; default: "
        f"the variable {PASSWORD_VARIABLE}, else it is asked for",
    )


def add_via_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--via",
        choices=[via.value for via in Via],
        help="how the changes of the source are read: from its oplog, or from its own change stream; "
        "default: the oplog if the user may read it, else the stream",
    )


def via_of(arguments: argparse.Namespace) -> Via | None:
    return None if arguments.via is None else Via(arguments.via)


def connection_string(
    arguments: argparse.Namespace, given: str | None, *, from_environment: bool = True
) -> ConnectionString | None:
    """The connection string with its password; None if there is none.

    ``given`` is that of the arguments. Raises `UsageError` if it has a password, and if one is missing.
    """
    path: Path | None = arguments.source_file
    if given is not None and path is not None:
        raise UsageError("--source-file is instead of a connection string in the arguments; leave out one")
    if given is not None:
        uri = _without_secrets(given)
    elif path is not None:
        uri = ConnectionString(read_secret(path).strip())
    elif from_environment and os.environ.get(SOURCE_VARIABLE):
        uri = ConnectionString(os.environ[SOURCE_VARIABLE].strip())
    else:
        return None
    return _with_password(arguments, uri)


def other_connection_string(arguments: argparse.Namespace, given: str) -> ConnectionString:
    """A further connection string in the arguments; its user has the same password as the first one's."""
    uri = _without_secrets(given)
    return _with_password(arguments, uri) if uri.lacks_password else uri


def _without_secrets(given: str) -> ConnectionString:
    uri = ConnectionString(given)
    if uri.has_secrets:
        raise UsageError(
            "every user of this machine can see a password in the arguments; leave it out, and use "
            f"--password-file FILE, the variable {PASSWORD_VARIABLE} or --source-file FILE"
        )
    return uri


def _with_password(arguments: argparse.Namespace, uri: ConnectionString) -> ConnectionString:
    if arguments.password_file is not None:
        return ConnectionString(uri, arguments.password_file.absolute())
    return ConnectionString(with_password(uri, _password(str(uri.user)))) if uri.lacks_password else uri


def without_scheme(text: str) -> str | None:
    """What to write instead of an address without a scheme; None if the text is none.

    >>> without_scheme("localhost:27017")
    'a connection string has a scheme: write mongodb://localhost:27017'
    """
    if _ADDRESSES.fullmatch(text) is None:
        return None
    return f"a connection string has a scheme: write mongodb://{text}"


def password_of(arguments: argparse.Namespace, user: str) -> str:
    """The password of a user who is not in a connection string."""
    path: Path | None = arguments.password_file
    return _password(user) if path is None else read_secret(path)


def _password(user: str) -> str:
    found = os.environ.get(PASSWORD_VARIABLE)
    if found:
        return found
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass(f"Password of {user}: ")
    raise UsageError(
        f"the password of the user {user} is missing; use --password-file FILE or the variable "
        f"{PASSWORD_VARIABLE}"
    )
