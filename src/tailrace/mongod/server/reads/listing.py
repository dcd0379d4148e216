"""Cursors over lists of documents, for commands that list something."""

from collections.abc import Sequence

from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.batches import cursor_reply, fitting, id_first_reply
from tailrace.mongod.server.reads.cursors import CursorBatch


class ListingCursor:
    """The documents that did not fit into the first batch."""

    is_tailable = False
    is_tailable_await = False
    is_change_stream = False

    def __init__(self, ns: str, documents: Sequence[bytes]) -> None:
        self.ns = ns
        self._documents = documents
        self._next = 0

    def take(self, size: int | None) -> CursorBatch:
        """The next documents, at most ``size`` and as many as fit."""
        end = len(self._documents) if size is None else self._next + size
        wanted = self._documents[self._next : end]
        taken = list(wanted[: fitting(wanted)])
        self._next += len(taken)
        return CursorBatch(taken, exhausted=self._next >= len(self._documents))

    async def next_batch(self, size: int | None, wait_ms: int) -> CursorBatch:  # noqa: ARG002
        return self.take(size)

    def close(self) -> None:
        self._documents = ()


def batch_size(arguments: Arguments) -> int | None:
    """`cursor: {batchSize}`; None if it is not given."""
    cursor = arguments.nested("cursor")
    if cursor is None:
        return None
    size = cursor.integer("batchSize", None, minimum=0)
    cursor.finish()
    return size


def results_reply(context: Context, ns: str, documents: Sequence[bytes], size: int | None) -> bytes:
    """The reply with the first batch of results, and a cursor for the rest."""
    cursor = ListingCursor(ns, documents)
    first = cursor.take(size)
    cursor_id = context.node.cursors.register(context, cursor, first)
    return cursor_reply("firstBatch", first, cursor_id, ns)


def listing_reply(context: Context, ns: str, documents: Sequence[bytes], size: int | None) -> bytes:
    """The same for a list of things of the catalog."""
    cursor = ListingCursor(ns, documents)
    first = cursor.take(size)
    return id_first_reply(first.documents, context.node.cursors.register(context, cursor, first), ns)
