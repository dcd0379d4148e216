"""One module for each command; the folder is the table of commands."""

from importlib import import_module
from pkgutil import walk_packages
from typing import Final

from tailrace.mongod.server.dispatch.command import Command


def _collect() -> dict[str, Command]:
    found: dict[str, Command] = {}
    for module in walk_packages(__path__, f"{__name__}."):
        if module.ispkg:
            continue
        command: Command = import_module(module.name).COMMAND
        for name in (command.name, *command.aliases):
            if name in found:
                raise ImportError(f"two commands are called {name}")
            found[name] = command
    return found


COMMANDS: Final = _collect()
"""Every command by its name and aliases."""
