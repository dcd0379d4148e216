"""The options of `tailrace serve` in front of a deployment."""

import argparse
from typing import TYPE_CHECKING, Final

from tailrace.cli.sources.connection import (
    add_connection_arguments,
    add_via_argument,
    connection_string,
    via_of,
)
from tailrace.errors import UsageError, missing_package
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.server.options import DEFAULT_REPLICA_SET

if TYPE_CHECKING:
    from tailrace.mongod.front.deployment import FrontedDeployment

STORED: Final = "stored"
REBUILT: Final = "rebuilt"
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
    parser.add_argument(
        "--images",
        choices=[STORED, REBUILT],
        default=STORED,
        help="rebuilt: streams of a source show pre- and post-images that it did not store, as far as "
        "--history has the past of the document; default: stored, as the source shows them",
    )
    parser.add_argument(
        "--snapshot",
        action="store_true",
        help="with --images rebuilt: read the collections that were there before --history, once, and store "
        "them with it, so that images of their documents can be rebuilt",
    )
    add_via_argument(parser)


def source_of(arguments: argparse.Namespace) -> "FrontedDeployment | None":
    """Connect to the deployment that the options name; None if they name none."""
    uri = connection_string(arguments, arguments.source, from_environment=False)
    if uri is None:
        if arguments.password_file is not None:
            raise UsageError("--password-file is for a --source; name the source, or leave it out")
        if arguments.images != STORED:
            raise UsageError("--images rebuilt is for a --source; a collection of this server stores images")
        if arguments.snapshot:
            raise UsageError("--snapshot is for a --source; name the source, or leave it out")
        if arguments.via is not None:
            raise UsageError("--via is for a --source; name the source, or leave it out")
        return None
    for name, default in _OF_THE_SOURCE.items():
        if getattr(arguments, name) != default:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is not for serve --source, which presents what the source is")
    if arguments.spark_master is not None and arguments.history is None:
        raise UsageError("--spark-master is for the history of a source; name its place with --history")
    if arguments.images == REBUILT and arguments.history is None:
        raise UsageError("--images rebuilt needs the history of the source; name its place with --history")
    if arguments.snapshot and arguments.images != REBUILT:
        raise UsageError("--snapshot is for images that are rebuilt; add --images rebuilt")
    try:
        from tailrace.mongod.front.deployment import FrontedDeployment
    except ImportError as error:
        raise missing_package("serve --source", error) from None
    return FrontedDeployment(uri, via_of(arguments))
