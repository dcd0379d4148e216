"""How the events of a stream are printed, or passed to a command."""

import argparse
import os
import sys
from collections.abc import Callable
from functools import reduce

from tailrace.cli.watching.forms import coloured, pretty, relaxed
from tailrace.cli.watching.outputs import CommandForEach, Output, PrintedEvents


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pretty", action="store_true", help="print one field to a line, indented")
    add("--relaxed", action="store_true", help="print relaxed Extended JSON: plain numbers, readable dates")
    add(
        "--color",
        choices=["auto", "always", "never"],
        default="auto",
        help="whether to colour the output; default: on a terminal, unless NO_COLOR is set",
    )
    add(
        "--exec",
        metavar="CMD",
        help="run a shell command for each event, which gets it on standard input, instead of printing",
    )


def printed_output(arguments: argparse.Namespace) -> Output:
    """Lines on standard output, or a command for each event."""
    steps: list[Callable[[str], str]] = []
    if arguments.relaxed:
        steps.append(relaxed)
    if arguments.pretty:
        steps.append(pretty)
    if arguments.exec is not None:
        return CommandForEach(
            arguments.exec, lambda text: reduce(lambda found, step: step(found), steps, text)
        )
    if _wants_colours(arguments.color):
        steps.append(coloured)
    return PrintedEvents(lambda text: reduce(lambda found, step: step(found), steps, text))


def _wants_colours(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
