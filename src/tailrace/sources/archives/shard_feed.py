"""Read one shard's archived oplog in batches."""

from collections.abc import Iterator

from tailrace.errors import DamagedInputError
from tailrace.sources.archives.archive import ArchivedOplog, EntryBatch
from tailrace.sources.archives.entry_spool import EntrySpool
from tailrace.sources.archives.soundness import check_entry, damage_among


class ShardFeed:
    """One shard's entries in batches, and the older entries that later ones refer to; a context manager."""

    def __init__(self, paths: list[str]) -> None:
        self.oplog = ArchivedOplog(paths)
        self.entries = 0
        """number of entries read"""
        self._batches = self.oplog.batches()
        self._last: EntryBatch | None = None
        self._spool = EntrySpool()
        self.find = self._spool.find

    def __enter__(self) -> "ShardFeed":
        return self

    def __exit__(self, *_: object) -> None:
        self._batches.close()
        self._spool.__exit__()

    def batches(self, start: int) -> Iterator[list[bytes]]:
        """Yield the entries in order.

        Batches that end before ``start`` are skipped, except the first one: it shows how far back the oplog
        goes. The entries of their transactions are stored, because a transaction may end after ``start``.
        """
        for number, batch in enumerate(self._batches):
            self.entries += len(batch.entries)
            self._last = batch
            self._spool.add(batch.entries, batch.path, batch.offsets)
            if number == 0 or batch.last_time >= start:
                yield batch.entries
            else:
                self._spool.release()

    def damage(self) -> DamagedInputError | None:
        """The first damaged entry of the batch returned last, or of the transactions that it continues."""
        for raw, path, offset in self._spool.pending():
            if damage := damage_among(path, [raw], [offset], check_entry):
                return damage
        if self._last is None:
            return None
        return damage_among(self._last.path, self._last.entries, self._last.offsets, check_entry)

    def release(self) -> None:
        """Drop what only the batch returned last needed: all of its events are done."""
        self._spool.release()
