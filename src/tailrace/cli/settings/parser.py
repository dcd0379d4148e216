"""The parser of a command: flags win over variables of the environment, which win over a file.

Every option that a command declares can be given in each of these ways; nothing is declared twice. A value
replaces that of a weaker place, also for an option that may be repeated.
"""

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NoReturn

from tailrace.cli.settings.option import Option, nearest
from tailrace.cli.settings.sources import (
    CONFIG_VARIABLE,
    read_elsewhere,
    values_of_environment,
    values_of_file,
)
from tailrace.errors import UsageError

_NOT_GIVEN: Final = object()


class Parser(argparse.ArgumentParser):
    """A parser whose errors are `UsageError`."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


class CommandParser(Parser):
    def __init__(self, command: str, description: str) -> None:
        self.options: dict[str, Option] = {}
        """The options that can be set elsewhere, by name."""
        super().__init__(prog=f"tailrace {command}", description=description, allow_abbrev=False)
        self._command = command
        self.options.clear()  # -h
        self._config = self.add_argument(
            "--config",
            metavar="FILE",
            type=Path,
            help=f"a TOML file with options, see `tailrace config`; default: {CONFIG_VARIABLE}",
        )
        self.options.clear()

    def add_argument(self, *names: str, **keywords: Any) -> argparse.Action:
        action = super().add_argument(*names, **keywords)
        if action.option_strings:
            option = Option(action)
            self.options[option.name] = option
        return action

    def read(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        commands: Collection[str],
        all_names: Callable[[], Collection[str]],
    ) -> argparse.Namespace:
        """The arguments of a run; ``all_names`` returns the names of the options of all commands."""
        if "-h" in argv or "--help" in argv:
            self.parse_args(argv)
        self._check_spelling(argv)
        required = [option for option in self.options.values() if option.action.required]
        defaults = {name: option.default() for name, option in self.options.items()}
        for option in self.options.values():
            option.action.required = False
            # argparse appends to a copy of the default of an option that may be repeated
            option.action.default = None if option.takes_several else _NOT_GIVEN
        found = self.parse_args(argv)
        path = found.config or (
            Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None
        )
        values = {} if path is None else values_of_file(path, self._command, self.options, commands)
        for name in read_elsewhere(environment, self.options):
            values.pop(name, None)
        values |= values_of_environment(environment, self._command, self.options, all_names)
        for name, option in self.options.items():
            if getattr(found, option.action.dest) is option.action.default:
                _set(found, option.action.dest, values.get(name, defaults[name]))
        missing = [option for option in required if getattr(found, option.action.dest) is None]
        if missing:
            named = ", ".join("/".join(option.action.option_strings) for option in missing)
            self.error(f"the following arguments are required: {named}")
        return found

    def _check_spelling(self, argv: Sequence[str]) -> None:
        """Refuse an unknown option here: argparse names what is missing before it, and suggests nothing."""
        for text in takewhile(lambda text: text != "--", argv):
            flag = text.partition("=")[0]
            # argparse takes a text with a space as a value
            if flag.startswith("--") and " " not in text and flag not in self._option_string_actions:
                self.error(
                    f"{self.prog} has no option {flag}{nearest(flag, list(self._option_string_actions))}"
                )


def _set(found: argparse.Namespace, name: str, value: Any) -> None:
    if value is argparse.SUPPRESS:
        delattr(found, name)
    else:
        setattr(found, name, value)
