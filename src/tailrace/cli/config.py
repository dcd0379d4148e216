"""`tailrace config`: print a configuration file with every option, its meaning and its default."""

import argparse
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tailrace.cli.commands import COMMANDS, parser_of
from tailrace.cli.output import print_line
from tailrace.cli.settings.option import Option
from tailrace.errors import UsageError

HELP: Final = "print a configuration file with every option, commented out"

_WIDTH: Final = 100
_BEGINNING: Final = """\
# Options of Tailrace's commands, one table for each command. Remove the # of a line that begins with
# #NAME = and write a value. Use the file with `tailrace COMMAND --config FILE`, or name it in the variable
# TAILRACE_CONFIG. Flags win over variables (TAILRACE_PORT, or TAILRACE_SERVE_PORT for one command), which win
# over this file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "command", metavar="COMMAND", nargs="?", help="print the options of this command only"
    )


def run(arguments: argparse.Namespace) -> int:
    wanted = arguments.command
    if wanted is not None and wanted not in COMMANDS:
        raise UsageError(f"there is no command {wanted}; there are: {', '.join(COMMANDS)}")
    print_line(_BEGINNING)
    for name in [wanted] if wanted is not None else COMMANDS:
        options = parser_of(name).options.values()
        if options:
            print_line(f"\n[{name}]")
        for option in options:
            print_line("\n".join(_lines(option)))
    return 0


def _lines(option: Option) -> Iterator[str]:
    action = option.action
    meaning = (action.help or "") % {"default": action.default}
    yield from textwrap.wrap(meaning, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    yield f"#{option.name} = {_as_toml(_example(option))}"


def _example(option: Option) -> Any:
    default = option.action.default
    if default is None or default is argparse.SUPPRESS:
        default = str(option.action.metavar or option.action.dest.upper())
    return [default] if option.takes_several and isinstance(default, str) else default


def _as_toml(value: Any) -> str:
    return json.dumps(str(value) if isinstance(value, Path) else value)
