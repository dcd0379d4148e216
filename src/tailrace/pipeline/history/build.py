"""Build the files of a history from an interval of all shards' oplogs, slice of time by slice of time."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.events.change_event import ChangeEvent
from tailrace.events.entry_mark import EntryMark
from tailrace.events.interval import Interval
from tailrace.lake.bulk.raw_entries import EntryRuns, RawEntries, joined
from tailrace.lake.bulk.rows import BulkRows, PreImageOf
from tailrace.lake.data_file import AddedFile
from tailrace.lake.storage.log_store import LogStore
from tailrace.lake.writer import write_files
from tailrace.namespaces import EVERYTHING_KEPT, NamespaceChoice
from tailrace.pipeline.history.kept_rows import kept_rows
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.shard_events import ShardStages
from tailrace.sources.source import OplogSource

SLICE_ENTRIES: Final = 16_384
"""About how many entries a slice has: the work per slice is small beside that per entry."""
SLICE_BYTES: Final = 16 << 20
"""A slice with this many bytes is large enough, whatever its number of entries."""


@dataclass(frozen=True, slots=True)
class BuiltInterval:
    """What was written for an interval, and what it was written from."""

    files: tuple[AddedFile, ...]
    newest: Mapping[str, EntryMark]
    """The newest entry of each shard that has entries in the interval."""


def build(
    source: OplogSource,
    interval: Interval,
    place: str | PathLike[str] | LogStore,
    kept: NamespaceChoice = EVERYTHING_KEPT,
) -> BuiltInterval:
    """Write the files of an interval; they belong to the table after the driver has committed them.

    An interval without events has none. Memory does not grow with the interval.
    """
    newest: dict[str, bytes] = {}
    batches = shared_rows(source, interval.after, interval.through, newest=newest, kept=kept)
    files = write_files(place, batches, name=interval.name)
    return BuiltInterval(tuple(files), {shard: source.mark_of(raw) for shard, raw in newest.items()})


def shared_rows(
    source: OplogSource,
    after: int,
    through: int,
    slice_entries: int = SLICE_ENTRIES,
    newest: dict[str, bytes] | None = None,
    *,
    condition: EntryCondition = EVERYTHING,
    has_images: bool = True,
    kept: NamespaceChoice = EVERYTHING_KEPT,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of an interval in order: those that the row builder makes of `shared_events`, faster.

    One cluster time is never in two batches. Memory does not grow with the interval. ``newest`` is given the
    newest entry of each shard. ``condition`` is what the source may leave out; rows of namespaces that are
    not ``kept`` are left out. Without ``has_images``, no pre-images are looked up.
    """
    # Whether the ends of transactions are shown is up to the server, so the history has them.
    stages = {shard: ShardStages(source, shard, after, through, marks_end=True) for shard in source.shards()}

    def events_of(shard: str, raws: Sequence[bytes]) -> list[ChangeEvent]:
        return stages[shard].events(raws)

    def pre_image_of(shard: str, uuid: bytes, ts: int, index: int) -> bytes | None:
        find = stages[shard].pre_image
        return None if find is None else find(uuid, ts, index)

    has_images = has_images and any(stage.pre_image is not None for stage in stages.values())
    find: PreImageOf | None = pre_image_of if has_images else None
    rows = BulkRows(events_of, find, marks_end=True)
    condition = replace(condition, kept=kept)
    for entries in time_slices(source, after, through, slice_entries, condition):
        if newest is not None:
            newest.update({shard: run[-1] for shard, run in entries.items() if run})
        batch = kept_rows(rows.batch(entries), kept)
        if batch.num_rows:
            yield batch


def time_slices(
    source: OplogSource,
    after: int,
    through: int,
    slice_entries: int,
    condition: EntryCondition = EVERYTHING,
) -> Iterator[dict[str, RawEntries | EntryRuns]]:
    """Return the entries of an interval by shard. A slice has every shard's between two cluster times."""
    readers = {
        shard: _SliceReader(source.entries(shard, after, through, condition)) for shard in source.shards()
    }
    while True:
        held = size = 0
        open_readers = [reader for reader in readers.values() if not reader.is_over]
        while open_readers:
            reader = min(open_readers, key=lambda reader: reader.position)
            reader.read_on()
            held += reader.last_count
            size += reader.last_size
            open_readers = [reader for reader in open_readers if not reader.is_over]
            if held >= slice_entries or size >= SLICE_BYTES:
                break
        limit = min((reader.position for reader in open_readers), default=through)
        taken = {shard: reader.take(limit) for shard, reader in readers.items()}
        if any(taken.values()):
            yield taken
        if not open_readers:
            return


class _SliceReader:
    """Reads one shard's entries for slices."""

    def __init__(self, batches: Iterator[Sequence[bytes]]) -> None:
        self._batches = batches
        self._held: list[RawEntries] = []
        self.position = -1
        """The time of the last entry that was read."""
        self.is_over = False
        self.last_count = 0
        self.last_size = 0
        """Entries and bytes of the batch that was read last."""

    def read_on(self) -> None:
        batch = next(self._batches, None)
        self.is_over = batch is None
        run = RawEntries.of(batch or ())
        self.last_count, self.last_size = len(run), run.size
        if run:
            self._held.append(run)
            self.position = entry_time(run[-1]) if run.times is None else int(run.times[-1])

    def take(self, limit: int) -> RawEntries | EntryRuns:
        """Remove and return the entries up to a cluster time."""
        if self.position <= limit:
            taken, self._held = self._held, []
            return joined(taken)
        parts = [run.parted(_count_until(run, limit)) for run in self._held]
        self._held = [rest for _, rest in parts if rest]
        return joined([taken for taken, _ in parts if taken])


def _count_until(run: RawEntries, limit: int) -> int:
    """Return how many entries are not after a cluster time."""
    if run.times is None:
        return bisect_right(run, limit, key=entry_time)
    return int(np.searchsorted(run.times, np.uint64(max(limit, 0)), "right"))
