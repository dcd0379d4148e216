"""The options of `tailrace serve` in front of a deployment."""

import argparse
from typing import Final

from tailrace.cli.sources.connection import add_connection_arguments, connection_string
from tailrace.errors import UsageError
from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.server.options import DEFAULT_REPLICA_SET

_OF_THE_SOURCE: Final = {
    "--members": lambda arguments: arguments.members != 1,
    "--replica-set": lambda arguments: arguments.replica_set != DEFAULT_REPLICA_SET,
    "--server-version": lambda arguments: arguments.server_version != VERSION,
    "--shards": lambda arguments: arguments.shards != 0,
    "--standalone": lambda arguments: arguments.standalone,
}
"""Options that a server in front of a deployment takes from it."""


def add_front_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source",
        metavar="URI",
        help="serve the change streams of this replica set, and nothing else; the connection string without "
        "a password",
    )
    add_connection_arguments(parser)


def source_of(arguments: argparse.Namespace) -> FrontedDeployment | None:
    """Connect to the deployment that the options name; None if they name none."""
    uri = connection_string(arguments, arguments.source, from_environment=False)
    if uri is None:
        if arguments.password_file is not None:
            raise UsageError("--password-file is for a --source; name the source, or leave it out")
        return None
    for option, is_given in _OF_THE_SOURCE.items():
        if is_given(arguments):
            raise UsageError(f"{option} is not for serve --source, which presents what the source is")
    return FrontedDeployment(uri)
