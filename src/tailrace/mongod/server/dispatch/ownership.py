"""What the router of a sharded cluster tells a shard about the documents that are the shard's own.

A shard stores what it is given. Which documents belong to it the router knows, and says so with each command
that it sends; a client that connects to a shard directly says nothing, and finds an ordinary replica set.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tailrace.mongod.store.catalog import Collection

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context


class Ownership(Protocol):
    """Who owns what, for the time of one command. It is asked in the writer's thread."""

    def filter(self, collection: Collection) -> Callable[[bytes], bool] | None:
        """Tells a shard's own documents from those that it has besides; None if all are its own."""

    def check_upsert(self, collection: Collection, document: bytes) -> None:
        """Refuse (WouldChangeOwningShard, 283) to insert what belongs to another shard."""

    def check_update(
        self, context: "Context", collection: Collection, before: bytes, after: bytes, *, multi: bool
    ) -> None:
        """Refuse a change of the shard key that is not allowed, or after which another shard is the owner."""
