"""One module for each command that a router runs in a way of its own; others are the server's as they are."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import walk_packages
from typing import Final

from tailrace.mongod.server.commands import COMMANDS as SERVER_COMMANDS
from tailrace.mongod.server.dispatch.command import Command

_AS_ON_A_SERVER: Final = frozenset(
    {
        "abortTransaction", "aggregate", "buildInfo", "commitTransaction", "configureFailPoint",
        "connectionStatus", "count", "currentOp", "dataSize", "distinct", "endSessions", "explain", "find",
        "getClusterParameter", "getCmdLineOpts", "getDefaultRWConcern", "getLog", "getMore", "getParameter",
        "hello", "hostInfo", "killAllSessions", "killAllSessionsByPattern", "killCursors", "killSessions",
        "listCollections", "listCommands", "listIndexes", "logRotate", "logout", "ping", "refreshSessions",
        "saslStart", "setParameter", "shutdown", "startSession", "waitForFailPoint", "whatsmyuri",
    }
)  # fmt: skip
"""What is the same on a router: it is about the process, or reads through the router's own states"""


def _collect() -> Mapping[str, Command]:
    own: dict[str, Command] = {}
    for module in walk_packages(__path__, f"{__name__}."):
        if module.ispkg:
            continue
        command: Command = import_module(module.name).COMMAND
        own |= dict.fromkeys((command.name, *command.aliases), command)
    same = {name: command for name, command in SERVER_COMMANDS.items() if command.name in _AS_ON_A_SERVER}
    return {**same, **own}


COMMANDS: Final = _collect()
"""Every command of a router by its name and aliases"""
