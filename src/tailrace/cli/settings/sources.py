"""Where values come from that are not arguments: a TOML file, and variables of the environment."""

import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from tailrace.cli.settings.option import Option, nearest
from tailrace.errors import UsageError

PREFIX: Final = "TAILRACE_"
CONFIG_VARIABLE: Final = "TAILRACE_CONFIG"
_RESEMBLES: Final = 0.85
_READ_ELSEWHERE: Final = frozenset({"TAILRACE_SOURCE", "TAILRACE_PASSWORD"})
"""Variables that may have secrets, and so have rules of their own (`cli/sources/connection.py`)."""


def values_of_file(
    path: Path, command: str, options: Mapping[str, Option], commands: Collection[str]
) -> dict[str, Any]:
    """The values in a command's table of a file, by name; raises `UsageError` for what it does not know."""
    tables = _read(path)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: {name} is outside of a table; write it below [{command}]")
        if name not in commands:
            raise UsageError(f"{path}: there is no command for [{name}]{nearest(name, list(commands))}")
    values = {}
    for name, found in tables.get(command, {}).items():
        if name not in options:
            raise UsageError(f"{path}: tailrace {command} has no option {name}{nearest(name, list(options))}")
        values[name] = options[name].value_of_key(found, f"{path}: {name} of [{command}]")
    return values


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    except OSError as error:
        raise UsageError(f"the configuration {path} cannot be read: {error.strerror}") from None


def values_of_environment(
    environment: Mapping[str, str],
    command: str,
    options: Mapping[str, Option],
    all_names: Callable[[], Collection[str]],
) -> dict[str, Any]:
    """The values of variables, by name: ``TAILRACE_PORT``, or ``TAILRACE_SERVE_PORT`` for one command.

    A variable that only resembles an option of the command is refused. Others are ignored: Kubernetes, for
    one, adds variables with the name of a service. ``all_names`` are the options of all commands.
    """
    values = {}
    for name, option in options.items():
        for variable in (f"{_prefix_of(command)}{_upper(name)}", f"{PREFIX}{_upper(name)}"):
            if variable in environment and variable not in _READ_ELSEWHERE:
                values[name] = option.value_of_variable(environment[variable], f"the variable {variable}")
                break
    for variable in environment:
        _check_spelling(variable, command, options, all_names)
    return values


def read_elsewhere(environment: Mapping[str, str], options: Collection[str]) -> list[str]:
    """The options whose variable is set, and is read by rules of its own."""
    found = _READ_ELSEWHERE.intersection(environment)
    return [name for name in options if f"{PREFIX}{_upper(name)}" in found]


def without_options(environment: Mapping[str, str], options: Collection[str], command: str) -> dict[str, str]:
    """The environment of a child process whose options are all arguments.

    >>> without_options({"TAILRACE_KEEP_AGE": "9d", "TAILRACE_KERNEL": "numpy"}, ["keep-age"], "pipeline")
    {'TAILRACE_KERNEL': 'numpy'}
    """
    ours = {f"{prefix}{_upper(name)}" for name in options for prefix in (PREFIX, _prefix_of(command))}
    ours |= {CONFIG_VARIABLE, *_READ_ELSEWHERE}
    return {name: value for name, value in environment.items() if name not in ours}


def _check_spelling(
    variable: str, command: str, options: Mapping[str, Option], all_names: Callable[[], Collection[str]]
) -> None:
    prefix = next((part for part in (_prefix_of(command), PREFIX) if variable.startswith(part)), None)
    if prefix is None:
        return
    name = variable.removeprefix(prefix).lower().replace("_", "-")
    near = [] if name in options else get_close_matches(name, options, 1, _RESEMBLES)
    if near and name not in all_names():
        raise UsageError(
            f"there is no option for the variable {variable}; did you mean {prefix}{_upper(near[0])}?"
        )


def _prefix_of(command: str) -> str:
    return f"{PREFIX}{_upper(command)}_"


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
