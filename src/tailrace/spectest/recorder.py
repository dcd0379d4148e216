"""Record the commands that a client sends, from PyMongo's command monitoring."""

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
"""Commands that drivers send on their own, or the runner to prepare a test."""


class StartedCommand(NamedTuple):
    name: str
    database: str
    command: dict[str, Any]


class CommandRecorder(CommandListener):
    """Records every command that a client sends, except internal ones."""

    def __init__(self, ignored: Collection[str] = ()) -> None:
        self.commands: list[StartedCommand] = []
        self._ignored = _INTERNAL.union(ignored)

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in self._ignored:
            self.commands.append(StartedCommand(event.command_name, event.database_name, dict(event.command)))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass
