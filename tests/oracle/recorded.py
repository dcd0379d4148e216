"""Commands that a driver sent to one server, to be sent to another one in the same order.

A random workload decides by the replies of its server what it does next; its recorded commands do the same to
a second server, whatever that replies.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import bson
from bson import Timestamp
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from tailrace.bson.documents import decode
from tests.oracle.comparison import Document
from tests.oracle.twins import Side

_OF_ONE_SERVER: Final = frozenset({"getMore", "killCursors", "endSessions", "hello", "ping", "buildInfo"})
_NOT_IN_A_TRANSACTION: Final = 263
_TIMES: Final = ("prepareTimestamp", "operationTime")


@dataclass
class Recording:
    """One command, and how its server answered."""

    command: bytes
    reply: Document = field(default_factory=dict)


class Recorder(CommandListener):
    """Records the commands of a client, in their order."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self._open: dict[int, Recording] = {}

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in _OF_ONE_SERVER:
            recording = Recording(bson.encode(event.command))
            self.recordings.append(recording)
            self._open[event.request_id] = recording

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if recording := self._open.pop(event.request_id, None):
            recording.reply = decode(bson.encode(event.reply))

    def failed(self, event: CommandFailedEvent) -> None:
        if recording := self._open.pop(event.request_id, None):
            recording.reply = decode(bson.encode(event.failure))

    def send(self, side: Side) -> list[tuple[Document, Document, Document]]:
        """Send all commands to another server; returns those with another outcome and both replies."""
        different = []
        times: dict[Timestamp, Timestamp] = {}
        for recording in self.recordings:
            command = _for_another_server(decode(recording.command), times)
            if "prepareTransaction" in command and recording.reply.get("code") == _NOT_IN_A_TRANSACTION:
                # It has created a collection. Tailrace prepares it, as its shards do.
                del command["prepareTransaction"]
                side.call({"abortTransaction": 1, **command})
                continue
            reply = side.call(command)
            for name in _TIMES:
                if name in recording.reply and name in reply:
                    times[recording.reply[name]] = reply[name]
            if _outcome(recording.reply) != _outcome(reply):
                different.append((command, recording.reply, reply))
        return different


def _for_another_server(command: Document, times: dict[Timestamp, Timestamp]) -> Document:
    """Replace the times of the first server by those of the second one."""
    kept = {name: value for name, value in command.items() if name != "$clusterTime"}
    concern = kept.get("readConcern")
    if isinstance(concern, dict):
        kept["readConcern"] = {name: value for name, value in concern.items() if name != "afterClusterTime"}
    time = kept.get("commitTimestamp")
    if time is not None:
        kept["commitTimestamp"] = times.get(time, time)
    return kept


def _outcome(reply: Document) -> tuple[Any, ...]:
    errors = tuple(error.get("code") for error in reply.get("writeErrors", ()))
    return bool(reply.get("ok")), reply.get("code"), reply.get("n"), reply.get("nModified"), errors
