"""The commands of a router: one module for each that it does not run as a server does."""

from typing import Final

from tailrace.mongod.server.commands import COMMANDS as SERVER_COMMANDS
from tailrace.mongod.server.commands import collect

COMMANDS: Final = {
    **{name: command for name, command in SERVER_COMMANDS.items() if command.same_on_router},
    **collect(__name__, __path__),
}
"""Every command of a router by its name and aliases."""
