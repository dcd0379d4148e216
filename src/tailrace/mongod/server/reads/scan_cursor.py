"""The cursor of most reads: a scan of a collection in natural order, in blocks.

Whole documents are copied from the store into the reply. A filter is applied to each one, and a projection of
plain fields is cut out of its bytes. There is only one loop between store and reply.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final, TypeAlias

from tailrace.bson.documents import decode
from tailrace.mongod.language.find_projection.raw_fields import RawProjection
from tailrace.mongod.server.reads.access.access_paths import CollectionScan
from tailrace.mongod.server.reads.batches import ELEMENT_OVERHEAD, MAX_BATCH_BYTES
from tailrace.mongod.server.reads.cursors import CursorBatch
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.store.reader import Reader
from tailrace.pacing import tick, ticking, with_ticks
from tailrace.query.match import Matcher

_Work: TypeAlias = Callable[[list[bytes]], list[bytes]]
"""Turns documents into results."""

_MOST_AT_ONCE: Final = 1000
_FIRST_BLOCK: Final = 8
_BLOCK_SECONDS: Final = 0.005
_BLOCK_BYTES: Final = 1 << 20


class ScanCursor:
    """Between batches it stores only a record key."""

    is_tailable = False
    is_tailable_await = False
    is_change_stream = False

    def __init__(
        self,
        ns: str,
        state: ReadState,
        scan: CollectionScan,
        *,
        matcher: Matcher | None = None,
        projection: RawProjection | None = None,
        limit: int = 0,
    ) -> None:
        """``limit`` 0 is no limit."""
        self.ns = ns
        self._state = state
        self._scan = scan
        self._work = _work(matcher, projection)
        self._left: int | None = limit or None
        # The number of documents in a block is adapted while reading.
        self._at_once = _MOST_AT_ONCE if matcher is None else _FIRST_BLOCK
        state.watch(scan)

    async def next_batch(self, size: int | None, wait_ms: int) -> CursorBatch:  # noqa: ARG002
        documents: list[bytes] = []
        if size == 0:
            return CursorBatch(documents)
        if self._left is not None:
            size = self._left if size is None else min(size, self._left)
        is_last = self._fill(documents, size)
        if self._left is not None:
            self._left -= len(documents)
        return CursorBatch(documents, exhausted=is_last or self._left == 0)

    def _fill(self, documents: list[bytes], size: int | None) -> bool:
        """Read a batch; returns whether the collection ends after it."""
        scan, work = self._scan, self._work
        space = MAX_BATCH_BYTES
        began = monotonic()
        with self._state.batch() as reader:
            while size is None or len(documents) < size:
                room = _MOST_AT_ONCE if size is None else size - len(documents)
                # Later, a filter that few documents pass would read too few at once.
                is_bounded = work is None or scan.after is None
                count = min(room, self._at_once) if is_bounded else self._at_once
                block = reader.block(
                    scan.collection, scan.after, scan.stop, count=count, size=min(space, _BLOCK_BYTES)
                )
                found = block.documents if work is None else work(block.documents)
                used = sum(map(len, found)) + len(found) * ELEMENT_OVERHEAD
                if len(found) > room or (used > space and len(documents) + len(found) > 1):
                    self._fill_exactly(reader, documents, size, space)
                    return False
                documents += found
                space -= used
                scan.after = block.last
                scan.documents_examined += len(block.documents)
                if block.is_last:
                    return True
                tick()
                began = self._adapt(began)
        return False

    def _fill_exactly(self, reader: Reader, documents: list[bytes], size: int | None, space: int) -> None:
        """Read the last block again, one by one: the next batch starts after what fits into this one."""
        scan, work = self._scan, self._work
        for key, document in reader.records(scan.collection, scan.after):
            for found in [document] if work is None else work([document]):
                space -= len(found) + ELEMENT_OVERHEAD
                if space < 0 and documents:
                    return
                documents.append(found)
            scan.after = key
            scan.documents_examined += 1
            if size is not None and len(documents) == size:
                return

    def _adapt(self, began: float) -> float:
        """Adapt the size of blocks to the time of the last one: what does not fit is computed again."""
        now = monotonic()
        if now - began < _BLOCK_SECONDS:
            self._at_once = min(2 * self._at_once, _MOST_AT_ONCE)
        else:
            self._at_once = max(self._at_once // 2, 1)
        return now

    def close(self) -> None:
        self._state.close()


def _work(matcher: Matcher | None, projection: RawProjection | None) -> _Work | None:
    if matcher is None:
        return None if projection is None else lambda block: [projection(raw) for raw in ticking(block)]
    may_match = matcher.may_match
    if projection is None:
        return lambda block: [raw for raw in with_ticks(block) if may_match(raw) and matcher(decode(raw))]
    return lambda block: [
        projection(raw) for raw in with_ticks(block) if may_match(raw) and matcher(decode(raw))
    ]
