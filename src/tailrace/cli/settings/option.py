"""One option of a command, as argparse declares it: its name elsewhere, and values that are not arguments."""

import argparse
import re
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches
from typing import Any, Final

from tailrace.errors import TailraceError, UsageError
from tailrace.sources.deployments.connection_string import ConnectionString, is_uri

_TRUE: Final = ("1", "on", "true", "yes")
_FALSE: Final = ("", "0", "false", "no", "off")
_BETWEEN: Final = re.compile(r"[;\n]")
"""What separates the values of a variable, for an option that takes several."""


@dataclass(frozen=True, slots=True)
class Option:
    action: argparse.Action

    @property
    def name(self) -> str:
        """The key in a file: the long form on the command line, without its dashes."""
        return max(self.action.option_strings, key=len).removeprefix("--")

    @property
    def is_flag(self) -> bool:
        return self.action.nargs == 0

    @property
    def takes_several(self) -> bool:
        return self.action.nargs in ("*", "+") or isinstance(self.action, argparse._AppendAction)

    def value_of_key(self, found: Any, where: str) -> Any:
        """The value of a key of a TOML file; ``where`` names it in the `UsageError`."""
        if self.is_flag:
            if not isinstance(found, bool):
                raise UsageError(f"{where} is true or false, not {found}")
            return found
        if not self.takes_several:
            return self._value(found, where)
        if isinstance(found, dict):  # NAME=VALUE as a table
            found = [f"{name}={_text(value, where)}" for name, value in found.items()]
        return [self._value(item, where) for item in (found if isinstance(found, list) else [found])]

    def value_of_variable(self, text: str, where: str) -> Any:
        """The value of a variable of the environment."""
        if self.is_flag:
            if text.lower() not in (*_TRUE, *_FALSE):
                raise UsageError(f"{where} is true or false, not {text}")
            return text.lower() in _TRUE
        if self.takes_several:
            return [self._value(part.strip(), where) for part in _BETWEEN.split(text) if part.strip()]
        return self._value(text, where)

    def default(self) -> Any:
        """The default as argparse makes it."""
        default = self.action.default
        is_text = isinstance(default, str) and default is not argparse.SUPPRESS
        return self._converted(default) if is_text else default

    def _value(self, found: Any, where: str) -> Any:
        text = _text(found, where)
        if is_uri(text) and ConnectionString(text).has_secrets:
            raise UsageError(
                f"{where} has a password, which others may read there; leave it out, and use password-file "
                "or source-file"
            )
        try:
            value = self._converted(text)
        except (argparse.ArgumentTypeError, TailraceError) as error:
            raise UsageError(f"{where}: {error}") from None
        except (TypeError, ValueError):
            kind = "a whole number" if self.action.type is int else "another kind of value"
            raise UsageError(f"{where} is {kind}, not {text}") from None
        choices = self.action.choices
        if choices is not None and value not in choices:
            raise UsageError(f"{where} is one of {', '.join(map(str, choices))}, not {text}")
        return value

    def _converted(self, text: str) -> Any:
        make = self.action.type
        return make(text) if callable(make) else text


def _text(found: Any, where: str) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, bool):
        return str(found).lower()
    if isinstance(found, int | float | date | time):
        return str(found)
    raise UsageError(f"{where} takes text or a number, not {found}")


def nearest(name: str, names: list[str], cutoff: float = 0.6) -> str:
    """The part of a sentence that suggests a name; empty if none resembles it.

    >>> nearest("prot", ["port", "host"]), nearest("keep_age", ["keep-age"]), nearest("x", ["port"])
    ('; did you mean port?', '; did you mean keep-age?', '')
    """
    found = get_close_matches(name.replace("_", "-"), names, 1, cutoff)
    return f"; did you mean {found[0]}?" if found else ""
