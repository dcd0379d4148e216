"""An event as a worker gets it, and an event that could not be handled."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tailrace.client.options import Document
from tailrace.client.token_order import order_of


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for a worker of a group."""

    event: Document
    slot: int
    """The part of the stream that it belongs to: events of one document have the same, and come in order."""
    epoch: int
    """Grows when the slot gets another worker; a store can refuse what a worker with a smaller one writes."""
    is_replay: bool = False
    """It was a dead letter: events after it may have been handled."""

    @property
    def token(self) -> Document:
        token: Document = self.event["_id"]
        return token

    @property
    def position(self) -> str:
        """The token as text, which sorts like the stream; with the place of a document that was read."""
        return "-".join(filter(None, order_of(self.token)))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event whose handler failed too often."""

    group: str
    position: str
    """The text of its token: a group has at most one letter for an event."""
    slot: int
    event: bytes
    """The event as BSON."""
    error: str
    tries: int
    at: datetime

    def to_document(self) -> dict[str, Any]:
        """The document that a store keeps."""
        return {
            "group": self.group,
            "position": self.position,
            "slot": self.slot,
            "event": self.event,
            "error": self.error,
            "tries": self.tries,
            "at": self.at,
        }

    @classmethod
    def from_document(cls, document: Document) -> "DeadLetter":
        return cls(
            document["group"],
            document["position"],
            document["slot"],
            bytes(document["event"]),
            document["error"],
            document["tries"],
            document["at"],
        )
