"""`tailrace status`: one screen about a deployment, a history or a mirror, and whether it is as it should be.

==== ====================================================
0    healthy
1    degraded: something is wrong, and the output names it
2    unreachable: nobody answers, or there is no history
==== ====================================================
"""

import argparse
import json
import os
import sys
import time
from typing import Any, Final

from bson import Timestamp

from tailrace.cli.asking.deployment import ask_deployment
from tailrace.cli.asking.history import facts_of, history_in
from tailrace.cli.asking.mirror import mirror_in
from tailrace.cli.asking.page import ask_page, is_page, user_of_page
from tailrace.cli.asking.report import Report, State
from tailrace.cli.consuming.arguments import add_positions_argument, positions_argument
from tailrace.cli.failures import STANDARD_OUTPUT, writing_to
from tailrace.cli.output import print_line
from tailrace.cli.pipeline import duration
from tailrace.cli.sources.connection import (
    SOURCE_VARIABLE,
    add_connection_arguments,
    connection_string,
    password_of,
    without_scheme,
)
from tailrace.errors import HistoryError, SourceUnavailableError, UsageError
from tailrace.places import history_place, is_object_store
from tailrace.sources.deployments.connection_string import ConnectionString, is_uri

HELP: Final = "show a deployment, a history or a mirror: streams, lag, what is wrong and what to do"

_CODES: Final = {State.HEALTHY: 0, State.DEGRADED: 1, State.UNREACHABLE: 2}
_SECONDS_BETWEEN: Final = 2.0
_CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "place",
        metavar="SOURCE",
        nargs="?",
        help="the connection string of a deployment, the address of the page of a server or a pipeline, the "
        "folder or the URL of a history or a mirror, or the data directory of a server that has a history; "
        f"default: the variable {SOURCE_VARIABLE}",
    )
    add_connection_arguments(parser)
    add_positions_argument(parser)
    add("--json", action="store_true", help="print one JSON object")
    add("--watch", action="store_true", help="print it again every two seconds, until interrupted")
    add(
        "--max-lag",
        type=duration,
        default="60s",
        metavar="TIME",
        help="a history, a mirror, a stream or a group with a larger lag is degraded; default: %(default)s",
    )


def run(arguments: argparse.Namespace) -> int:
    place = arguments.place
    if place is None or is_uri(place):
        place = connection_string(arguments, place)
        if place is None:
            raise UsageError(
                "name what to look at: a connection string, the address of a page, or the folder of a "
                "history or mirror"
            )
    positions = _positions(arguments, place)
    user = user_of_page(place) if is_page(place) else None
    login = None if user is None else (user, password_of(arguments, user))
    while True:
        report = _report(place, positions, login, arguments.max_lag)
        if arguments.watch and not arguments.json and sys.stdout is not None and sys.stdout.isatty():
            print_line(_CLEAR_SCREEN)
        print_line(_as_json(report) if arguments.json else report.as_text())
        if not arguments.watch:
            return _CODES[report.state]
        with writing_to(STANDARD_OUTPUT):
            sys.stdout.flush()
        time.sleep(_SECONDS_BETWEEN)


def _positions(arguments: argparse.Namespace, place: str) -> str | None:
    """Where the groups keep their positions; nothing is created by asking."""
    positions = positions_argument(arguments)
    if positions is None:
        return None
    if not isinstance(place, ConnectionString):
        raise UsageError("--positions belongs to the connection string of a deployment")
    if not is_uri(positions) and not os.path.exists(positions):
        raise UsageError(f"there is no file {positions}; tailrace consume --positions creates it")
    return positions


def _report(place: str, positions: str | None, login: tuple[str, str] | None, max_lag: float) -> Report:
    now = time.time()
    shown = place.shown if isinstance(place, ConnectionString) else place
    report = Report(shown, now)
    try:
        if isinstance(place, ConnectionString):
            report.deployment = ask_deployment(place, now, positions)
        elif is_page(place):
            report.deployment = ask_page(place, login, now)
        else:
            _look_into(history_place(place), report)
    except (SourceUnavailableError, HistoryError) as error:
        report.unreachable = str(error)
    if report.deployment is not None:
        report.history = report.deployment.history
        report.kernel = (report.deployment.pipeline or {}).get("kernel")
    report.judge(max_lag)
    return report


def _look_into(place: str, report: Report) -> None:
    """Add what a history or a mirror shows."""
    if not is_object_store(place) and not os.path.exists(place):
        reason = without_scheme(place) or "a connection string begins with mongodb://"
        raise HistoryError(f"there is no folder {place}; {reason}")
    report.mirror = mirror_in(place, report.now)
    if report.mirror is None:
        report.history = facts_of(history_in(place), report.now)
        report.kernel = _own_kernel()


def _own_kernel() -> str:
    """What a pipeline with this interpreter would use; the folder does not show who builds it."""
    from tailrace.lake.bulk.kernel import kernel_in_words

    return f"{kernel_in_words()}, for a pipeline that this installation runs"


def _as_json(report: Report) -> str:
    return json.dumps(report.as_document(), default=_plain)


def _plain(value: Any) -> Any:
    return [value.time, value.inc] if isinstance(value, Timestamp) else str(value)
