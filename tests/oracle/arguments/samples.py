"""What a sample of a command is, and what several of them need."""

from dataclasses import dataclass, field
from typing import Any, Final

from bson import Binary

from tests.oracle.twins import Recalled

Document = dict[str, Any]
DATABASE: Final = "arguments"
OTHER: Final = "arguments2"
SESSION: Final = {"id": Binary(bytes(range(16)), 4)}
COLLATION: Final = {
    "locale": "en", "strength": 2, "caseLevel": False, "caseFirst": "off", "numericOrdering": False,
    "alternate": "non-ignorable", "maxVariable": "punct", "normalization": False, "backwards": False,
}  # fmt: skip
UUID: Final = Binary(bytes(16), 4)
DOCUMENTS: Final = [{"_id": number, "a": number, "b": [number]} for number in range(5)]
FILLED: Final = (
    {"delete": "w", "deletes": [{"q": {}, "limit": 0}]},
    {"insert": "w", "documents": DOCUMENTS},
)
"""The collection that writes change, as it is before each of them."""
STAGE: Final[Document] = {"$changeStream": {}}
STREAM: Final = Recalled("stream")
CURSOR: Final = Recalled("cursor")


@dataclass(frozen=True, slots=True)
class Sample:
    command: Document
    extras: Document = field(default_factory=dict)
    """Optional fields; each is added alone."""
    before: tuple[Document, ...] = ()
    """Commands that make the state on both servers, before each case."""
    database: str = DATABASE
    outcome_only: bool = False
    """Whether the reply's content cannot be the same: figures, the machine, plans."""
    opens: str | None = None
    """Before each case a cursor is opened; `stream` or `cursor`."""

    @property
    def name(self) -> str:
        return next(iter(self.command))

    @property
    def is_stream(self) -> bool:
        """Whether it opens or reads a change stream."""
        return self.opens == "stream" or self.command.get("pipeline") == [STAGE]


def admin(command: Document, extras: Document | None = None, *, outcome_only: bool = False) -> Sample:
    return Sample(command, extras or {}, database="admin", outcome_only=outcome_only)


def fresh(name: str, *made: Document) -> tuple[Document, ...]:
    return ({"drop": name}, *made)
