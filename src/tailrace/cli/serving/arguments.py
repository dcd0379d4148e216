"""The options of `tailrace serve`."""

import argparse
import sys
from pathlib import Path
from typing import Final

from tailrace.cli.logs.arguments import add_log_arguments
from tailrace.cli.pipeline import add_history_arguments, chosen_namespaces
from tailrace.cli.serving.exposure import TEST_COMMANDS, check_exposure, is_loopback
from tailrace.cli.serving.front_arguments import REBUILT, add_front_arguments
from tailrace.cli.serving.page import add_http_argument
from tailrace.cli.serving.tls_arguments import add_tls_arguments, tls_of
from tailrace.cli.sources.folders import history_argument, local_folder
from tailrace.errors import UsageError
from tailrace.mongod.server.admin.audit import AuditLog
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.server.options import (
    DEFAULT_CONNECTIONS,
    DEFAULT_PORT,
    DEFAULT_REPLICA_SET,
    ServerOptions,
)
from tailrace.mongod.store.store import DEFAULT_OPLOG_SIZE
from tailrace.mongod.store.tables import DEFAULT_MAP_SIZE
from tailrace.namespaces import EVERYTHING_KEPT

_MEGABYTE: Final = 1 << 20
_MAX_OPLOG_MEGABYTES: Final = 1 << 20
_GIGABYTE: Final = 1 << 30
_MAX_GIGABYTES: Final = 1 << 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        help="port to listen on, or the first of them; 0 picks a free one; default: %(default)s",
    )
    add(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 is all of them; default: %(default)s",
    )
    add(
        "--insecure",
        action="store_true",
        help="listen on other addresses than the loopback address without access control and TLS",
    )
    add(
        "--advertise",
        metavar="HOST:PORT",
        help="address that clients connect to, if it differs from the one listened on; several are "
        "separated by commas",
    )
    add(
        "--data",
        metavar="DIR",
        type=local_folder,
        help="data directory; default: a temporary one, removed at the end",
    )
    add(
        "--oplog-size",
        metavar="MB",
        type=int,
        default=DEFAULT_OPLOG_SIZE // _MEGABYTE,
        help="size above which the oldest oplog entries are removed; default: %(default)s",
    )
    add(
        "--max-size",
        metavar="GB",
        type=int,
        default=DEFAULT_MAP_SIZE // _GIGABYTE,
        help="largest size of the data directory; default: %(default)s",
    )
    add(
        "--replica-set",
        metavar="NAME",
        default=DEFAULT_REPLICA_SET,
        help="name of the replica set; default: %(default)s",
    )
    add(
        "--members",
        metavar="N",
        type=int,
        default=1,
        help="number of members: one process that listens on N ports, beginning with --port; default: 1",
    )
    add(
        "--shards",
        metavar="N",
        type=int,
        default=0,
        help="run a sharded cluster of N shards; clients connect to its routers",
    )
    add(
        "--routers",
        metavar="M",
        type=int,
        default=1,
        help="number of routers of the cluster, on ports beginning with --port; default: 1",
    )
    add(
        "--max-connections",
        metavar="N",
        type=int,
        default=DEFAULT_CONNECTIONS,
        help="most connections that are open at the same time; further ones are closed; default: %(default)s",
    )
    add(
        "--server-version",
        metavar="X.Y.Z",
        default=VERSION,
        help="MongoDB version to present, 4.0 or later: drivers and change streams see what that version "
        "shows; default: %(default)s",
    )
    add(
        "--standalone",
        action="store_true",
        help="run a server without a replica set: no change streams, no transactions",
    )
    add(
        "--auth",
        action="store_true",
        help="clients have to log in, and may do only what their users have rights to",
    )
    add(
        "--auth-user",
        metavar="NAME",
        help="the first user, an administrator; created if there are no users",
    )
    add(
        "--auth-password-file",
        metavar="FILE",
        type=Path,
        help="the file with the password of the first user",
    )
    add_tls_arguments(parser)
    add_front_arguments(parser)
    add_http_argument(parser)
    add(
        "--audit-log",
        metavar="FILE",
        type=Path,
        help="append log-ins, refusals and changes of users, roles and the catalog to this file; opened "
        "again after SIGUSR1",
    )
    add(
        "--history",
        metavar="DIR|URL",
        type=history_argument,
        help="folder of the history of all events, or its URL in an object store; default: the folder "
        "history in the data directory",
    )
    add(
        "--no-spark",
        action="store_true",
        help="run no pipeline: streams can be resumed only as far back as the oplog goes",
    )
    add("--spark-master", metavar="M", help="Spark's master for the pipeline; default: this machine")
    add_history_arguments(parser)
    add(
        "--head",
        choices=["on", "off"],
        default="on",
        help="off: streams show only what the pipeline has written to the history; default: on",
    )
    add_log_arguments(parser)
    add(
        "--set-parameter",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a server parameter that differs from its default; may be repeated",
    )


def read_arguments(arguments: argparse.Namespace) -> ServerOptions:
    """Check the options; raises `UsageError`."""
    if not 0 <= arguments.port <= 65535:
        raise UsageError(f"{arguments.port} is not a port; give --port a number from 0 to 65535")
    if not 1 <= arguments.oplog_size <= _MAX_OPLOG_MEGABYTES:
        raise UsageError(f"--oplog-size is a number of megabytes from 1 to {_MAX_OPLOG_MEGABYTES}")
    if not 1 <= arguments.max_size <= _MAX_GIGABYTES:
        raise UsageError(f"--max-size is a number of gigabytes from 1 to {_MAX_GIGABYTES}")
    if arguments.max_connections < 1:
        raise UsageError("--max-connections is a number of at least 1")
    if not arguments.replica_set:
        raise UsageError("a replica set needs a name; use --standalone for a server without one")
    check_exposure(arguments)
    parameters = dict(_parameter(text) for text in arguments.set_parameter)
    if not is_loopback(arguments.host):
        parameters.setdefault(TEST_COMMANDS, "false")
    return ServerOptions(
        host=arguments.host,
        port=arguments.port,
        advertise=_address(arguments.advertise),
        data=arguments.data,
        replica_set=None if arguments.standalone else arguments.replica_set,
        members=arguments.members,
        shards=arguments.shards,
        routers=arguments.routers,
        server_version=arguments.server_version,
        auth=arguments.auth,
        first_user=_first_user(arguments) if arguments.auth else None,
        tls=tls_of(arguments),
        audit=None if arguments.audit_log is None else AuditLog(arguments.audit_log),
        oplog_bytes=arguments.oplog_size * _MEGABYTE,
        max_bytes=arguments.max_size * _GIGABYTE,
        max_connections=arguments.max_connections,
        head=arguments.head == "on",
        kept=chosen_namespaces(arguments) or EVERYTHING_KEPT,
        rebuilds_images=arguments.images == REBUILT,
        records_snapshot=arguments.snapshot,
        log_level=arguments.log_level,
        parameters=parameters,
        arguments=tuple(sys.argv[1:]),
    )


def _first_user(arguments: argparse.Namespace) -> tuple[str, str] | None:
    """Name and password; the password is read from a file, because every user of a machine sees arguments."""
    name, path = arguments.auth_user, arguments.auth_password_file
    if name is None and path is None:
        return None
    if not name or path is None:
        raise UsageError("the first user needs both --auth-user NAME and --auth-password-file FILE")
    try:
        password = Path(path).read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the password cannot be read from {path}: {error}") from None
    if not password:
        raise UsageError(f"the file {path} with the password of the first user is empty")
    return name, password


def _address(text: str | None) -> str | None:
    if text is None:
        return None
    for address in text.split(","):
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise UsageError(f"--advertise takes HOST:PORT, not {address}")
    return text


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set-parameter takes NAME=VALUE, not {text}")
    return name, value
