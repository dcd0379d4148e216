"""The options of `tailrace serve` in front of a deployment."""

import argparse
from typing import Final

from tailrace.cli.sources.connection import add_connection_arguments, connection_string
from tailrace.errors import UsageError
from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.server.options import DEFAULT_REPLICA_SET

_OF_THE_SOURCE: Final = {
    "members": 1,
    "replica_set": DEFAULT_REPLICA_SET,
    "server_version": VERSION,
    "shards": 0,
    "standalone": False,
}
"""Options that a server in front of a deployment takes from it, with their defaults."""


def add_front_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source",
        metavar="URI",
        help="serve the change streams of this deployment, and nothing else; the connection string without "
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
    for name, default in _OF_THE_SOURCE.items():
        if getattr(arguments, name) != default:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is not for serve --source, which presents what the source is")
    if arguments.spark_master is not None and arguments.history is None:
        raise UsageError("--spark-master is for the history of a source; name its place with --history")
    return FrontedDeployment(uri)
