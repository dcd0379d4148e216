"""The table of commands, and the parser of each.

A command is a module with `HELP` (one line), `add_arguments(parser)` and `run(arguments) -> exit code`. It is
imported when it is called, so that a small one starts fast.
"""

import argparse
from importlib import import_module
from typing import Final, Protocol, cast

from tailrace.cli.settings.parser import CommandParser

COMMANDS: Final = {
    "check": "tailrace.cli.check",
    "config": "tailrace.cli.config",
    "consume": "tailrace.cli.consume",
    "mirror": "tailrace.cli.mirroring.command",
    "pipeline": "tailrace.cli.pipeline",
    "replay": "tailrace.cli.replay",
    "serve": "tailrace.cli.serve",
    "spec-test": "tailrace.cli.spec_test",
    "status": "tailrace.cli.status",
    "token": "tailrace.cli.token",
    "verify": "tailrace.cli.verify",
    "watch": "tailrace.cli.watch",
}


class Command(Protocol):
    """The interface of a module in `COMMANDS`."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Return the exit code."""


def command_named(name: str) -> Command:
    return cast("Command", import_module(COMMANDS[name]))


def parser_of(name: str) -> CommandParser:
    command = command_named(name)
    parser = CommandParser(name, command.HELP)
    command.add_arguments(parser)
    return parser


def all_option_names() -> set[str]:
    """The names of the options of all commands."""
    return {option for name in COMMANDS for option in parser_of(name).options}
