"""One shard's archived oplog on its way into an engine."""

from tailrace.store.archive import ArchivedOplog
from tailrace.store.entry_spool import EntrySpool


class ShardFeed:
    """The entries of one shard batch by batch, and those a later one may refer back to. A context manager."""

    def __init__(self, paths: list[str]) -> None:
        self.oplog = ArchivedOplog(paths)
        self.position = -1
        """cluster time of the newest entry handed out; -1 before the first"""
        self._batches = self.oplog.batches()
        self._spool = EntrySpool()
        self.find = self._spool.find

    def __enter__(self) -> "ShardFeed":
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.__exit__()

    def next_entries(self, start: int) -> list[bytes] | None:
        """The next batch, None at the end.

        Batches that end before ``start`` are not handed out, except the first one: it tells how far back the
        oplog goes. Their transactions count all the same, for one that is pending may end after ``start``.
        """
        for batch in self._batches:
            is_first = self.position < 0
            self.position = batch.last_time
            self._spool.add(batch.entries)
            if is_first or batch.last_time >= start:
                return batch.entries
            self._spool.release()
        return None

    def pushed(self) -> None:
        """Note that the engine is done with the batch handed out last."""
        self._spool.release()
