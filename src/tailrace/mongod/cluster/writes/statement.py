"""One statement of a write command, as a router handles it."""

from dataclasses import dataclass
from typing import TypeAlias

from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec

Work: TypeAlias = bytes | UpdateSpec | DeleteSpec
"""A document to insert, an update, or a delete"""


@dataclass(slots=True)
class Statement:
    """One statement; what it says is only read if the router has to know."""

    index: int
    """Its place in the client's command"""
    ns: str
    raw: bytes
    """As the client wrote it"""
    id: int | None = None
    """By what it is known when it is sent again; None if the command is not a retryable write"""
    work: Work | None = None

    @property
    def is_upsert(self) -> bool:
        """Whether it inserts a document if it finds none."""
        return isinstance(self.work, UpdateSpec) and self.work.upsert

    @property
    def is_multi(self) -> bool:
        """Whether it is about all documents that match."""
        return isinstance(self.work, UpdateSpec | DeleteSpec) and self.work.multi
