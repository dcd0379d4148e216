"""Archived oplogs as a source: files and folders as `replay` reads them.

The paths have to lead to the same files on every executor. An archive is taken to be complete: every shard
has told everything once the last entry of the last file is reached.
"""

import hashlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Final
from uuid import uuid4

from tailrace.errors import DamagedInputError, UsageError
from tailrace.events.cluster_time import in_words
from tailrace.events.oplog_entry import parse_entry
from tailrace.events.oplog_start import is_first_entry
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.lookups import Lookups
from tailrace.sources.archives.archive import ArchivedOplog
from tailrace.sources.archives.archived_file import ArchivedFile, open_archived
from tailrace.sources.archives.document_files import DocumentFiles
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.archives.pre_image_files import PreImageFiles
from tailrace.sources.batch_boundaries import COMMIT_TIME, Commit
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.process_cache import ProcessCache
from tailrace.sources.source import UNLIMITED, OplogSource

_COUNTED_ENTRIES: Final = 20_000
_COUNTED_BYTES: Final = 8 << 20
"""Up to these limits entries are counted; beyond them they are estimated from where they stand"""
_PART_BYTES: Final = 32 << 20
_MOST_PARTS: Final = 64
_POINTS_PER_PART: Final = 16
_SMALLEST_STEP: Final = 64 << 10


_images: Final[ProcessCache[PreImageFiles]] = ProcessCache(PreImageFiles.__exit__)
_documents: Final[ProcessCache[DocumentFiles]] = ProcessCache(DocumentFiles.__exit__)


class FilesSource(OplogSource):
    """The archived oplogs of one or more shards.

    ``pre_images`` are dumps of `config.system.preimages` by shard; those under None serve every shard.
    ``documents`` are dumps of collections by namespace, for streams that show documents as they are now.
    """

    def __init__(
        self,
        shards: Mapping[str, Sequence[str]],
        pre_images: Mapping[str | None, Sequence[str]] | None = None,
        documents: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if not shards:
            raise UsageError("no oplog was given; name its files, or those of every shard")
        self._files: dict[str, list[ArchivedFile]] = {}
        for shard, paths in shards.items():
            found = [str(file.absolute()) for file in ArchivedOplog(list(paths)).files]
            self._files[shard] = [file for path in found if (file := _opened(path)) is not None]
        self._pre_images = {shard: _dumps(paths) for shard, paths in (pre_images or {}).items()}
        self._documents = {ns: _dumps(paths) for ns, paths in (documents or {}).items()}
        self._owner = uuid4().hex
        unknown = sorted(name for name in self._pre_images if name is not None and name not in self._files)
        if unknown:
            raise UsageError(f"there are pre-images for the shard {unknown[0]!r}, but no oplog of it")

    # -- what it is ---------------------------------------------------------------------------------------

    def shards(self) -> tuple[str, ...]:
        """As they were named."""
        return tuple(self._files)

    def identity(self) -> str:
        """A digest of the shards' names and their first entries; it stays when files are added."""
        digest = hashlib.sha256()
        for shard, files in sorted(self._files.items()):
            digest.update(shard.encode() + b"\0")
            for file in files[:1]:
                digest.update(file.first)
        return digest.hexdigest()[:32]

    def oldest(self, shard: str | None = None) -> int:
        """See `OplogSource`."""
        names = self._files if shard is None else (shard,)
        return max(self._oldest_of(name) for name in names)

    def _oldest_of(self, shard: str) -> int:
        for file in self._files[shard]:
            entry = parse_entry(file.first)
            return 0 if is_first_entry(entry) else entry.ts
        return 0

    def promised(self) -> int:
        """The time of the last entry of all: the files hold everything there is."""
        return self._last

    @cached_property
    def _last(self) -> int:
        return max((files[-1].last_time for files in self._files.values() if files), default=0)

    @property
    def size(self) -> int:
        """About how many bytes the entries have, for whoever shows progress."""
        return sum(file.weight for files in self._files.values() for file in files)

    # -- entries ------------------------------------------------------------------------------------------

    def commits(self, after: int, through: int) -> list[Commit]:
        """See `OplogSource`; archives without any, which most are, are not read entry by entry."""
        if not any(file.may_hold(COMMIT_TIME) for files in self._files.values() for file in files):
            return []
        return super().commits(after, through)

    def entries(
        self,
        shard: str,
        after: int,
        through: int,
        condition: EntryCondition = EVERYTHING,  # noqa: ARG002 - all is read
    ) -> Iterator[Sequence[bytes]]:
        """See `OplogSource`."""
        if self._oldest_of(shard) > after + 1 > 1:
            raise history_lost(after)
        last = after
        for file in self._overlapping(shard, after, through):
            for entries in file.batches(after, through):
                first = entry_time(entries[0])
                if first <= last:
                    reason = (
                        f"its {in_words(first)} does not come after the {in_words(last)} of the file before"
                    )
                    raise DamagedInputError(file.path, 0, reason)
                last = entry_time(entries[-1])
                yield entries

    def _overlapping(self, shard: str, after: int, through: int) -> list[ArchivedFile]:
        """The files that may hold something of an interval."""
        files = self._files[shard]
        found = []
        for file, following in zip_longest(files, files[1:]):
            is_before = following is not None and following.first_time <= after + 1
            if not is_before and file.first_time <= through:
                found.append(file)
        return found

    def entry(self, shard: str, ts: int, term: int) -> bytes | None:
        """See `OplogSource`."""
        for file in self._overlapping(shard, ts - 1, ts):
            found = file.find(ts, term)
            if found is not None:
                return found
        return None

    def lookups(self, shard: str, after: int, through: int) -> Lookups:  # noqa: ARG002 - dumps are searched
        """The dumps that were given; each is prepared once in a process."""

        def find_entry(ts: int, term: int) -> bytes | None:
            return self.entry(shard, ts, term)

        lookups = Lookups(entry=find_entry)
        dumps = (*self._pre_images.get(shard, ()), *self._pre_images.get(None, ()))
        if dumps:
            images = _images.get(self._owner, dumps, lambda: PreImageFiles(dumps))
            lookups = Lookups(find_entry, images.find)
        if self._documents:
            current = _documents.get(self._owner, "", lambda: DocumentFiles(self._documents))
            lookups = Lookups(find_entry, lookups.pre_image, current.find)
        return lookups

    def close(self) -> None:
        """Close the dumps that this process has open."""
        _images.release(self._owner)
        _documents.release(self._owner)
        for files in self._files.values():
            for file in files:
                file.close()

    # -- planning -----------------------------------------------------------------------------------------

    def split(self, after: int, through: int, parts: int) -> list[int]:
        """See `OplogSource`; work is measured in bytes."""
        if parts < 2 or through <= after:
            return []
        step = max(self._weight_of(after, through) // (parts * _POINTS_PER_PART), _SMALLEST_STEP)
        points = list(self._points(after, through, step))
        total = sum(size for _, size in points)
        cuts: list[int] = []
        reached = 0
        for time, size in points:
            reached += size
            is_due = len(cuts) < parts - 1 and reached * parts >= total * (len(cuts) + 1)
            if is_due and after < time < through and (not cuts or time > cuts[-1]):
                cuts.append(time)
        return cuts

    def suggested_parts(self, after: int, through: int) -> int:
        """See `OplogSource`; a piece has some megabytes."""
        return min(max(self._weight_of(after, through) // _PART_BYTES, 1), _MOST_PARTS)

    def _weight_of(self, after: int, through: int) -> int:
        return sum(
            file.weight_of(after, through)
            for shard in self._files
            for file in self._overlapping(shard, after, through)
        )

    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """See `OplogSource`."""
        if max_entries >= UNLIMITED and max_bytes >= UNLIMITED:
            return through
        if max_entries <= _COUNTED_ENTRIES or max_bytes <= _COUNTED_BYTES:
            return self._counted(after, through, max_entries, max_bytes)
        room = min(max_bytes, max_entries * self._usual_size(after, through))
        reached = 0
        limit = after
        for time, size in self._points(after, through, max(room // _POINTS_PER_PART, _SMALLEST_STEP)):
            reached += size
            if reached > room and limit > after:
                return limit
            limit = time
        return through

    def fits(self, after: int, through: int, max_entries: int, max_bytes: int) -> bool:
        """See `OplogSource`; nothing is read to see that an interval has more bytes."""
        return self._weight_of(after, through) <= max_bytes and super().fits(
            after, through, max_entries, max_bytes
        )

    def _counted(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        count = size = fitting = last = 0
        for time, length in heapq.merge(*(self._times(shard, after, through) for shard in self._files)):
            if time != last:
                if count > max_entries or size > max_bytes:
                    return fitting or last
                fitting, last = last, time
            count += 1
            size += length
        return (fitting or last) if count > max_entries or size > max_bytes else through

    def _times(self, shard: str, after: int, through: int) -> Iterator[tuple[int, int]]:
        for entries in self.entries(shard, after, through):
            for raw in entries:
                yield entry_time(raw), len(raw)

    def _usual_size(self, after: int, through: int) -> int:
        """How large the entries are at the beginning of an interval."""
        samples = [
            file.sample(after, through)
            for shard in self._files
            for file in self._overlapping(shard, after, through)[:1]
        ]
        count = sum(count for count, _ in samples)
        return max(sum(size for _, size in samples) // count, 1) if count else 1

    def _points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        """See `ArchivedFile.points`, of all shards together; found one by one as they are asked for."""
        return heapq.merge(*(self._shard_points(shard, after, through, step) for shard in self._files))

    def _shard_points(self, shard: str, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        for file in self._overlapping(shard, after, through):
            yield from file.points(after, through, step)


def _opened(path: str) -> ArchivedFile | None:
    if not Path(path).is_file():
        raise UsageError(f"{path} is no regular file, and Spark has to read it more than once")
    return open_archived(path)


def _dumps(paths: Sequence[str]) -> tuple[str, ...]:
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"there is no regular file {path}, and a dump has to be one: it is searched")
    return tuple(str(Path(path).absolute()) for path in paths)
