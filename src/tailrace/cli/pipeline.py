"""`tailrace pipeline`: the options of the command; `history_job` runs it.

>>> parser = argparse.ArgumentParser()
>>> add_arguments(parser)
>>> parser.parse_args(["--source", "mongodb://localhost/", "--history", "events", "--trigger", "5s"]).trigger
5.0
"""

import argparse
import re
from pathlib import Path
from typing import Final

from tailrace.log_lines import LEVELS

HELP: Final = "build the history of a deployment with Spark: every event, in order, exactly once"

AVAILABLE_NOW: Final = "available-now"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add(
        "--source",
        nargs="+",
        default=[],
        metavar="URI|PATH",
        help="connection string of a replica set or of a cluster's router; or archived oplogs, files and "
        "folders as `tailrace replay` reads them",
    )
    add(
        "--shard",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="the archived oplog of one shard, instead of --source; repeated for other shards",
    )
    add(
        "--pre-images",
        action="append",
        default=[],
        metavar="[SHARD=]PATH",
        help="with archived oplogs: a dump of config.system.preimages; of one shard if the shard is named",
    )
    add("--history", type=Path, required=True, metavar="DIR", help="the table; made if it is not there")
    add("--master", metavar="M", help="Spark's master; all cores of this machine without it")
    add(
        "--trigger",
        type=trigger,
        default=argparse.SUPPRESS,
        metavar="TIME|available-now",
        help="how often a batch begins, such as 5s (the default), 0s as soon as there is something; "
        "available-now takes what is there and ends (the default for archived oplogs)",
    )
    add("--max-entries", type=int, metavar="N", help="the most oplog entries of one batch")
    add(
        "--max-bytes",
        type=size,
        metavar="SIZE",
        help="the most bytes of oplog entries of one batch, such as 512MB",
    )
    add(
        "--keep-age",
        type=duration,
        metavar="TIME",
        help="give up events older than this, such as 90d; never without it",
    )
    add(
        "--keep-size",
        type=size,
        metavar="SIZE",
        help="give up the oldest events when the table is larger than this, such as 200GB",
    )
    add(
        "--spark-conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark; may be repeated",
    )
    add(
        "--end-with-input",
        action="store_true",
        help="end when standard input is closed: for a supervisor that may die without a word",
    )
    add(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="what goes to standard error",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run until everything is done or a signal ends it."""
    from tailrace.cli.history_job import run_history_job

    return run_history_job(arguments)


def trigger(text: str) -> float | None:
    """Seconds between batches; None for what is available now.

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
        raise argparse.ArgumentTypeError(f"{text} is no time such as 500ms, 5s, 10m, 12h or 90d")
    return float(found[1]) * _UNITS[found[2]]


def size(text: str) -> int:
    """Bytes.

    >>> size("1.5GB")
    1610612736
    """
    found = _AMOUNT.fullmatch(text)
    if found is None or found[2].upper() not in _SIZES:
        raise argparse.ArgumentTypeError(f"{text} is no size such as 64MB, 200GB or 1TB")
    return round(float(found[1]) * _SIZES[found[2].upper()])
