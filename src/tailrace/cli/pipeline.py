"""`tailrace pipeline`: the options of the command; `history_job` runs it.

>>> parser = argparse.ArgumentParser()
>>> add_arguments(parser)
>>> parser.parse_args(["--source", "mongodb://localhost/", "--history", "events", "--trigger", "5s"]).trigger
5.0
"""

import argparse
import os
import re
from typing import Final

from tailrace.cli.logs.arguments import add_log_arguments
from tailrace.cli.private_files import private_files
from tailrace.cli.serving.page import add_http_argument
from tailrace.cli.sources.connection import (
    add_connection_arguments,
    add_via_argument,
    connection_string,
    without_scheme,
)
from tailrace.cli.sources.folders import history_argument
from tailrace.errors import UsageError
from tailrace.namespaces import NamespaceChoice
from tailrace.sources.deployments.connection_string import is_uri

HELP: Final = "build the history of a deployment with Spark: every event, in order, exactly once"

AVAILABLE_NOW: Final = "available-now"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--source",
        nargs="+",
        default=[],
        metavar="URI|PATH",
        help="connection string of a replica set or of a cluster's router; or archived oplogs: the files and "
        "folders that `tailrace replay` reads",
    )
    add_connection_arguments(parser)
    add_via_argument(parser)
    add(
        "--shard",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="the archived oplog of one shard, instead of --source; repeat it for every shard",
    )
    add(
        "--pre-images",
        action="append",
        default=[],
        metavar="[SHARD=]PATH",
        help="for archived oplogs: a dump of config.system.preimages, of all shards or of the named one",
    )
    add(
        "--history",
        type=history_argument,
        required=True,
        metavar="DIR|URL",
        help="the folder of the Delta table, or its URL in an object store; created if missing",
    )
    add(
        "--master",
        metavar="M",
        help="Spark's master, or sc://HOST[:PORT] for a server of Spark Connect; default: all cores of this "
        "machine",
    )
    add_history_arguments(parser)
    add("--max-entries", type=int, metavar="N", help="most oplog entries in one batch")
    add(
        "--max-bytes",
        type=size,
        metavar="SIZE",
        help="most bytes of oplog entries in one batch, such as 512MB",
    )
    add(
        "--server-version",
        metavar="VERSION",
        help="the MongoDB release whose change streams a new history imitates, such as 6.0.27; default: that "
        "of the deployment, and the current one for archived oplogs",
    )
    add_http_argument(parser)
    add(
        "--insecure",
        action="store_true",
        help="serve the page on other addresses than the loopback address, without a user and TLS",
    )
    add(
        "--end-with-input",
        action="store_true",
        help="end when standard input is closed, for a supervisor that may be killed",
    )
    add_log_arguments(parser)


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    """What a server lets its own pipeline do, too."""
    add = parser.add_argument
    add(
        "--ns",
        action="append",
        default=[],
        metavar="NAME",
        help="keep only the events of this database, collection, glob such as shop.order*, or regular "
        "expression between slashes; may be repeated; a history that exists can keep more, not less",
    )
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="NAME",
        help="keep no events of these, named as in --ns; may be repeated",
    )
    add(
        "--backfill",
        action="store_true",
        help="with a history that keeps more than before: add what the source's oplog still has of it, too",
    )
    add(
        "--trigger",
        type=trigger,
        default=argparse.SUPPRESS,
        metavar="TIME|available-now",
        help="how often a batch begins, such as 5s (the default); 0s: as soon as there are new entries; "
        "available-now: read what is there and end (the default for archived oplogs)",
    )
    add(
        "--keep-age",
        type=duration,
        metavar="TIME",
        help="delete events older than this, such as 90d; default: never",
    )
    add(
        "--keep-size",
        type=size,
        metavar="SIZE",
        help="delete the oldest events when the table is larger than this, such as 200GB; default: never",
    )
    add(
        "--spark-conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a Spark setting; may be repeated",
    )


def chosen_namespaces(arguments: argparse.Namespace) -> NamespaceChoice | None:
    """What --ns and --exclude choose; None without them."""
    if not arguments.ns and not arguments.exclude:
        return None
    return NamespaceChoice.of(arguments.ns, arguments.exclude)


def run(arguments: argparse.Namespace) -> int:
    from tailrace.cli.history_job import run_history_job

    for text in arguments.source:
        reason = without_scheme(text)
        if reason is not None and not os.path.exists(text):
            raise UsageError(f"there is no file {text}; {reason}")
    if not arguments.shard:
        given = arguments.source[0] if len(arguments.source) == 1 and is_uri(arguments.source[0]) else None
        if given is not None or not arguments.source:
            uri = connection_string(arguments, given)
            arguments.source = [] if uri is None else [uri]
        elif arguments.source_file is not None:
            raise UsageError("--source-file is instead of --source; leave out one of them")
    with private_files():
        return run_history_job(arguments)


def trigger(text: str) -> float | None:
    """Seconds between batches; None for one run over what is available.

    >>> trigger("500ms"), trigger("available-now")
    (0.5, None)
    """
    return None if text == AVAILABLE_NOW else duration(text)


def duration(text: str) -> float:
    """Seconds.

    >>> duration("90d")
    7776000.0
    """
    found = _AMOUNT.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text} is not a time such as 500ms, 5s, 10m, 12h or 90d")
    return float(found[1]) * _UNITS[found[2]]


def size(text: str) -> int:
    """Bytes.

    >>> size("1.5GB")
    1610612736
    """
    found = _AMOUNT.fullmatch(text)
    if found is None or found[2].upper() not in _SIZES:
        raise argparse.ArgumentTypeError(f"{text} is not a size such as 64MB, 200GB or 1TB")
    return round(float(found[1]) * _SIZES[found[2].upper()])
