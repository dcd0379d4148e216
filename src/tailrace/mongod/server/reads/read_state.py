"""The state of the store that a command or a cursor reads, from batch to batch.

Most cursors read the newest state in each batch and hold nothing between batches, so that a slow client costs
no disk space. In a transaction, and with the read concern `snapshot`, all batches read one state.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.mongod.language.aggregation import PAUSE, Pause
from tailrace.mongod.server.reads.access.access_paths import AccessPath
from tailrace.mongod.store.reader import Reader, Record
from tailrace.pacing import tick

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context
    from tailrace.mongod.server.reads.snapshots import PinnedSnapshot
    from tailrace.mongod.store.snapshot_source import SnapshotSource


class ReadState:
    """Opens the reader of each batch."""

    def __init__(
        self, states: "SnapshotSource", reader: Reader | None = None, pinned: "PinnedSnapshot | None" = None
    ) -> None:
        """Without ``reader`` each batch reads the newest state."""
        self._states = states
        self._reader = reader
        self._pinned = pinned
        self._paths: list[AccessPath] = []
        self._is_open = False
        self.on_close: list[Callable[[], None]] = []
        """Called when nothing is read any more."""
        self.generation = 0
        """Increases with each batch; documents read before may have changed."""

    @classmethod
    async def of(cls, context: "Context") -> "ReadState":
        """The state that a command reads, by its transaction and its read concern."""
        states = context.node.states
        if context.transaction is not None:
            return cls(states, context.transaction.reader)
        if context.read_concern.level == "snapshot":
            pinned = await context.node.snapshots.pin(context.read_concern.at_cluster_time)
            return cls(states, pinned.reader, pinned)
        return cls(states.for_reader())

    @property
    def reader(self) -> Reader:
        """The reader of this batch."""
        assert self._reader is not None, "a state is read inside of a batch"
        return self._reader

    @property
    def at_cluster_time(self) -> int | None:
        """The time of the state, if all batches read one."""
        return None if self._pinned is None else self._pinned.time

    def watch(self, path: AccessPath) -> None:
        """Check a path whenever it continues in another state."""
        if path not in self._paths:
            self._paths.append(path)

    @contextmanager
    def batch(self) -> Iterator[Reader]:
        """Open the state for one batch; inside of another batch it is the same one."""
        if self._is_open:
            yield self.reader
            return
        self._is_open = True
        self.generation += 1
        try:
            if self._reader is not None:
                if self._pinned is not None and self.generation > 1:
                    self._check_newest()
                yield self._reader
                return
            with self._states.snapshot() as snapshot:
                self._reader = snapshot
                try:
                    for path in self._paths:
                        path.check(snapshot)
                    yield snapshot
                finally:
                    self._reader = None
        finally:
            self._is_open = False

    def _check_newest(self) -> None:
        """Check that what a pinned state shows has not been dropped or renamed since, as the server does."""
        with self._states.snapshot() as newest:
            for path in self._paths:
                path.check(newest)

    def close(self) -> None:
        """Release a pinned state, and what belongs to what was read."""
        for listener in self.on_close:
            listener()
        self.on_close.clear()
        if self._pinned is not None:
            self._pinned.release()
            self._pinned = None

    def records(self, path: AccessPath) -> Iterator[Record | Pause]:
        """The records of a path, over several batches, with ticks between them."""
        self.watch(path)
        while True:
            generation = self.generation
            records = path.records(self.reader)
            for record in records:
                yield record
                if self.generation != generation:
                    break  # another batch: its reader continues where this one stopped
                tick()
            else:
                return

    def documents(self, path: AccessPath) -> Iterator[bytes | Pause]:
        """The same without the record keys."""
        for record in self.records(path):
            yield record if record is PAUSE else record[1]
