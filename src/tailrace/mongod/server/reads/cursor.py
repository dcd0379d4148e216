"""Cursors over the results of reads."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tailrace.mongod.language.aggregation import PAUSE, Pause
from tailrace.mongod.server.reads.batches import ELEMENT_OVERHEAD, MAX_BATCH_BYTES
from tailrace.mongod.server.reads.cursors import CursorBatch
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.scan_cursor import ScanCursor
from tailrace.pacing import tick

if TYPE_CHECKING:
    from tailrace.mongod.store.store import Store
    from tailrace.mongod.store.writer import Commit


class Progress:
    """Whether the last result that was returned is known to be the final one."""

    __slots__ = ("finished",)

    def __init__(self) -> None:
        self.finished = False


class ResultCursor:
    """The results of a query or a pipeline, computed batch by batch."""

    is_tailable = False
    is_tailable_await = False
    is_change_stream = False

    def __init__(
        self, ns: str, state: ReadState, results: Iterator[bytes | Pause], progress: Progress | None = None
    ) -> None:
        self.ns = ns
        self._state = state
        self._results = results
        self._progress = progress or Progress()
        self._held: bytes | None = None

    async def next_batch(self, size: int | None, wait_ms: int) -> CursorBatch:  # noqa: ARG002
        documents: list[bytes] = []
        if size == 0:
            return CursorBatch(documents)
        used = 0
        if self._held is not None:
            documents.append(self._held)
            used = len(self._held) + ELEMENT_OVERHEAD
            self._held = None
        with self._state.batch():
            while size is None or len(documents) < size:
                item = next(self._results, None)
                if item is None:
                    return CursorBatch(documents, exhausted=True)
                if item is PAUSE:
                    tick()
                    continue
                used += len(item) + ELEMENT_OVERHEAD
                if used > MAX_BATCH_BYTES and documents:
                    self._held = item
                    return CursorBatch(documents)
                documents.append(item)
        return CursorBatch(documents, exhausted=self._progress.finished)

    def close(self) -> None:
        close_results = getattr(self._results, "close", None)
        if close_results is not None:
            close_results()
        self._state.close()


class TailableCursor:
    """Follows a capped collection; stays open at the end of its results."""

    is_tailable = True
    is_change_stream = False

    def __init__(
        self,
        store: "Store",
        open_inner: Callable[[], ScanCursor | ResultCursor],
        progress: Progress,
        *,
        is_await: bool,
    ) -> None:
        """``open_inner`` returns a cursor on the results after those returned so far.

        ``progress`` is set when a limit is reached.
        """
        self.is_tailable_await = is_await
        self._store = store
        self._open_inner = open_inner
        self._progress = progress
        self._inner = open_inner()
        self._wake: asyncio.Future[None] | None = None
        store.on_commit.append(self._committed)

    @property
    def ns(self) -> str:
        return self._inner.ns

    async def next_batch(self, size: int | None, wait_ms: int) -> CursorBatch:
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            # Created before reading, so that a commit during or after the read is not missed.
            wake = self._wake = asyncio.get_running_loop().create_future()
            batch = await self._inner.next_batch(size, 0)
            if batch.exhausted:
                self._inner = self._open_inner()
            left = deadline - time.monotonic()
            if batch.documents or size == 0 or not self.is_tailable_await or left <= 0:
                self._wake = None
                return CursorBatch(batch.documents, exhausted=self._progress.finished)
            try:
                async with asyncio.timeout(left):
                    await wake
            except TimeoutError:
                return CursorBatch([])
            finally:
                self._wake = None

    def _committed(self, _commit: "Commit") -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def close(self) -> None:
        self._store.on_commit.remove(self._committed)
        self._inner.close()
