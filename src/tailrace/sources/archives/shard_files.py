"""The archived oplog of one shard: files that follow each other."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from tailrace.errors import DamagedInputError, UsageError
from tailrace.events.cluster_time import BEGINNING, ClusterTime, in_words
from tailrace.events.oplog_entry import is_first_entry, parse_entry
from tailrace.events.stages.check_resumability import history_lost
from tailrace.sources.archives.archive import ArchivedOplog, in_time_order, may_hold_entries
from tailrace.sources.archives.archived_file import ArchivedFile, open_archived
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.archives.opening import StoredPath, stored_files


class ShardFiles:
    def __init__(self, paths: Sequence[str]) -> None:
        found = [file for path in paths for file in _files_at(path)]
        self._files = [file for path in found if (file := _opened(path)) is not None]

    @property
    def first_entry(self) -> bytes:
        """The first entry of all; empty if there is none."""
        return self._files[0].first if self._files else b""

    @property
    def oldest(self) -> ClusterTime:
        if not self._files:
            return BEGINNING
        entry = parse_entry(self.first_entry)
        return BEGINNING if is_first_entry(entry) else ClusterTime(entry.ts)

    @property
    def last_time(self) -> ClusterTime:
        return ClusterTime(self._files[-1].last_time) if self._files else BEGINNING

    @property
    def size(self) -> int:
        """About how many bytes the entries have."""
        return sum(file.weight for file in self._files)

    def may_contain(self, text: bytes) -> bool:
        """Return whether an entry may contain these bytes."""
        return any(file.may_contain(text) for file in self._files)

    def entries(self, after: int, through: int) -> Iterator[Sequence[bytes]]:
        if self.oldest > after + 1 > 1:
            raise history_lost(after)
        last = after
        for file in self._overlapping(after, through):
            for entries in file.batches(after, through):
                first = entry_time(entries[0])
                if first <= last:
                    reason = (
                        f"its {in_words(first)} does not come after the {in_words(last)} of the file before"
                    )
                    raise DamagedInputError(file.path, 0, reason)
                last = entry_time(entries[-1])
                yield entries

    def entry(self, ts: int, term: int) -> bytes | None:
        """Return the entry at exactly this position; None if the files do not have it."""
        for file in self._overlapping(ts - 1, ts):
            found = file.find(ts, term)
            if found is not None:
                return found
        return None

    def _overlapping(self, after: int, through: int) -> list[ArchivedFile]:
        """The files that may contain entries of an interval."""
        found = []
        for file, following in zip_longest(self._files, self._files[1:]):
            is_before = following is not None and following.first_time <= after + 1
            if not is_before and file.first_time <= through:
                found.append(file)
        return found

    # -- measures -----------------------------------------------------------------------------------------

    def weight_of(self, after: int, through: int) -> int:
        """Return about how many bytes have to be read for an interval."""
        return sum(file.weight_of(after, through) for file in self._overlapping(after, through))

    def sample(self, after: int, through: int) -> tuple[int, int]:
        """Return how many entries the beginning of an interval has, and how many bytes they have."""
        for file in self._overlapping(after, through):
            return file.sample(after, through)
        return 0, 0

    def points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        """Return the times reached about every ``step`` bytes, and the bytes since the point before."""
        for file in self._overlapping(after, through):
            yield from file.points(after, through, step)

    def close(self) -> None:
        for file in self._files:
            file.close()


def _files_at(path: str) -> Sequence[str]:
    if not isinstance(path, StoredPath):
        return [str(file.absolute()) for file in ArchivedOplog([path]).files]
    files = stored_files(path)
    if files != [path]:
        files = in_time_order([file for file in files if may_hold_entries(file.rpartition("/")[2])])
    return files


def _opened(path: str) -> ArchivedFile | None:
    if not isinstance(path, StoredPath) and not Path(path).is_file():
        raise UsageError(f"{path} is no regular file, and Spark has to read it more than once")
    return open_archived(path)
