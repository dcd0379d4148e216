"""One shard's archived oplog on its way into an engine."""

from tailrace.errors import DamagedInputError
from tailrace.sources.archives.archive import ArchivedOplog, EntryBatch
from tailrace.sources.archives.entry_spool import EntrySpool
from tailrace.sources.archives.soundness import check_entry, damage_among


class ShardFeed:
    """The entries of one shard batch by batch, and those a later one may refer back to. A context manager."""

    def __init__(self, paths: list[str]) -> None:
        self.oplog = ArchivedOplog(paths)
        self.position = -1
        """cluster time of the newest entry handed out; -1 before the first"""
        self.entries = 0
        """how many were read"""
        self._batches = self.oplog.batches()
        self._last: EntryBatch | None = None
        self._spool = EntrySpool()
        self.find = self._spool.find

    def __enter__(self) -> "ShardFeed":
        return self

    def __exit__(self, *_: object) -> None:
        self._batches.close()
        self._spool.__exit__()

    def next_entries(self, start: int) -> list[bytes] | None:
        """The next batch, None at the end.

        Batches that end before ``start`` are not handed out, except the first one: it tells how far back the
        oplog goes. Their transactions count all the same, for one that is pending may end after ``start``.
        """
        for batch in self._batches:
            is_first = self.position < 0
            self.position = batch.last_time
            self.entries += len(batch.entries)
            self._last = batch
            self._spool.add(batch.entries, batch.path, batch.offsets)
            if is_first or batch.last_time >= start:
                return batch.entries
            self._spool.release()
        return None

    def damage(self) -> DamagedInputError | None:
        """What is wrong with the entries of the events that are under way, if they are no BSON or no entries.

        Those are the batch handed out last, and the earlier parts of transactions.
        """
        for raw, path, offset in self._spool.kept():
            if damage := damage_among(path, [raw], [offset], check_entry):
                return damage
        if self._last is None:
            return None
        return damage_among(self._last.path, self._last.entries, self._last.offsets, check_entry)

    def release(self) -> None:
        """Note that the batch handed out last has led to all the events it will lead to."""
        self._spool.release()
