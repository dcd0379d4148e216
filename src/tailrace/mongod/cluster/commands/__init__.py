"""The commands of a router: a module for each one that differs from the server's."""

from typing import Final

from tailrace.mongod.server.commands import COMMANDS as SERVER_COMMANDS
from tailrace.mongod.server.commands import collect

COMMANDS: Final = {
    **{name: command for name, command in SERVER_COMMANDS.items() if command.same_on_router},
    **collect(__name__, __path__),
}
"""All commands of a router, by name and aliases."""
