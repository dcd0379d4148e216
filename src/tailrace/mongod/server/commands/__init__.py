"""The commands of a replica-set member: one module for each, which declares it as ``COMMAND``."""

from collections.abc import Iterable
from importlib import import_module
from pkgutil import walk_packages
from typing import Final

from tailrace.mongod.server.dispatch.command import Command


def collect(package: str, path: Iterable[str]) -> dict[str, Command]:
    """The commands that the modules of a package declare, by name and alias."""
    found: dict[str, Command] = {}
    for module in walk_packages(path, f"{package}."):
        if module.ispkg:
            continue
        command: Command = import_module(module.name).COMMAND
        for name in (command.name, *command.aliases):
            if name in found:
                raise ImportError(f"two commands are called {name}")
            found[name] = command
    return found


COMMANDS: Final = collect(__name__, __path__)
"""Every command by its name and aliases."""
