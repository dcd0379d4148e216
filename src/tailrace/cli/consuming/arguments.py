"""The arguments of `tailrace consume`, and which of its jobs they name."""

import argparse
from typing import Final

from tailrace.cli.sources.connection import add_connection_arguments, other_connection_string
from tailrace.cli.watching.printing import add_output_arguments
from tailrace.cli.watching.stream_arguments import add_stream_arguments
from tailrace.errors import UsageError
from tailrace.places import local_path
from tailrace.sources.deployments.connection_string import is_uri

JOBS: Final = ("status", "pause", "resume", "seek", "dead_letters", "replay", "delete")
"""The options that do something else than consume; at most one is given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "words",
        metavar="ADDRESS",
        nargs="*",
        help="the connection string of a deployment; then GROUP; then DB or DB.COLL, by default everything",
    )
    add_connection_arguments(parser)
    add_positions_argument(parser)
    add(
        "--slots",
        type=int,
        metavar="N",
        help="parts of a new group, the most workers it can use; default: 32",
    )
    add(
        "--snapshot",
        action="store_true",
        help="let a new group begin with the documents that there are, as events of the type read",
    )
    add(
        "--lease-seconds",
        type=float,
        default=10.0,
        metavar="S",
        help="a worker without a heartbeat for so long has stopped; default: %(default)s",
    )
    add(
        "--max-tries",
        type=int,
        metavar="N",
        help="run a command that fails N times, then store the event as a dead letter; default: end",
    )
    add("--max", type=int, metavar="N", help="end after N events")
    add_stream_arguments(parser)
    add_output_arguments(parser)
    add("--status", action="store_true", help="show workers, lag and dead letters; without GROUP all groups")
    add("--json", action="store_true", help="with --status: print one JSON object for each group")
    add("--pause", action="store_true", help="let the workers of the group wait")
    add("--resume", action="store_true", help="end a pause")
    add(
        "--seek",
        metavar="TIME|TOKEN",
        help="let the group go on at a time, such as 2026-11-17T20:00:00Z, or after a token",
    )
    add("--dead-letters", action="store_true", help="print the dead letters of the group")
    add(
        "--replay",
        action="store_true",
        help="print the dead letters, or run --exec, and remove what succeeds",
    )
    add("--delete", action="store_true", help="remove the group, its positions and its dead letters")


def add_positions_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--positions",
        metavar="PLACE",
        help="where the positions are kept: mongodb://HOST/DB.COLLECTION, or a file for the workers of this "
        "machine; default: a Tailrace server keeps them itself",
    )


def job_of(arguments: argparse.Namespace) -> str | None:
    """The job that the options name; None to consume."""
    given = [job for job in JOBS if getattr(arguments, job) not in (None, False)]
    if len(given) > 1:
        names = " and ".join(f"--{job.replace('_', '-')}" for job in given)
        raise UsageError(f"{names} exclude each other; leave out one of them")
    if arguments.json and given != ["status"]:
        raise UsageError("--json belongs to --status")
    return given[0] if given else None


def group_and_namespace(words: list[str], job: str | None) -> tuple[str | None, str | None]:
    """The words after the address; all groups have a status, everything else needs one group."""
    if len(words) > 2:
        raise UsageError(f"unrecognized arguments: {' '.join(words[2:])}; see `tailrace consume --help`")
    if not words and job != "status":
        raise UsageError("name the group, after the address of the deployment")
    if len(words) == 2 and job is not None:
        raise UsageError(f"--{job.replace('_', '-')} is about a whole group; leave out {words[1]}")
    return words[0] if words else None, words[1] if len(words) == 2 else None


def positions_argument(arguments: argparse.Namespace) -> str | None:
    """The place of the positions, with its password."""
    place: str | None = arguments.positions
    if place is None:
        return None
    if is_uri(place):
        return other_connection_string(arguments, place)
    return local_path(place, "--positions")
