"""Which documents a shard owns, as its router states with each command.

A shard stores what it is sent; only routers have the placement. For a client that connects to it directly, a
shard is an ordinary replica set.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tailrace.mongod.store.catalog import Collection

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context


class Ownership(Protocol):
    """The documents that a shard owns, for the time of one command. Called in the writer's thread."""

    def filter(self, collection: Collection) -> Callable[[bytes], bool] | None:
        """Whether a document of the collection is owned by the shard; None if all are."""

    def check_upsert(self, collection: Collection, document: bytes) -> None:
        """Refuse (WouldChangeOwningShard, 283) to insert what belongs to another shard."""

    def check_update(
        self, context: "Context", collection: Collection, before: bytes, after: bytes, *, multi: bool
    ) -> None:
        """Refuse a change of the shard key that is not allowed, or after which another shard is the owner."""
