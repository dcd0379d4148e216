"""The commands that a client sends, as its driver announces them."""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

_INTERNAL: Final = frozenset(
    {"hello", "ismaster", "isMaster", "configureFailPoint", "endSessions", "saslStart", "saslContinue"}
)
"""What drivers send by themselves, or the runner to prepare a test."""


class StartedCommand(NamedTuple):
    """A command when it was sent."""

    name: str
    database: str
    command: dict[str, Any]


class CommandRecorder(CommandListener):
    """Keeps every command that a client starts, but for internal ones."""

    def __init__(self, ignored: Collection[str] = ()) -> None:
        self.commands: list[StartedCommand] = []
        self._ignored = _INTERNAL.union(ignored)

    def started(self, event: CommandStartedEvent) -> None:
        """PyMongo calls this before it sends a command."""
        if event.command_name not in self._ignored:
            self.commands.append(StartedCommand(event.command_name, event.database_name, dict(event.command)))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing is expected of answers."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing is expected of answers."""
