"""A statement of a write command on a router."""

from dataclasses import dataclass
from typing import TypeAlias

from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec

Work: TypeAlias = bytes | UpdateSpec | DeleteSpec
"""A document to insert, an update, or a delete"""


@dataclass(slots=True)
class Statement:
    """A statement; it is parsed only if the router needs its contents."""

    index: int
    """Its position in the client's command"""
    ns: str
    raw: bytes
    """As the client wrote it"""
    id: int | None = None
    """Identifies it in a retry; None if the command is not a retryable write"""
    work: Work | None = None

    @property
    def is_upsert(self) -> bool:
        return isinstance(self.work, UpdateSpec) and self.work.upsert

    @property
    def is_multi(self) -> bool:
        return isinstance(self.work, UpdateSpec | DeleteSpec) and self.work.multi
