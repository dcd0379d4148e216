"""Archived oplogs as a source: files and folders as `replay` reads them.

The paths have to lead to the same files on every executor, or are URLs of an object store. An archive is
assumed to be complete: every shard has promised everything up to the last entry of all.
"""

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from tailrace.errors import UsageError
from tailrace.events.cluster_time import ClusterTime
from tailrace.events.promise import Promise
from tailrace.events.stages.lookups import Lookups
from tailrace.sources.archives.document_files import DocumentFiles
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.archives.opening import StoredPath, archived_path, file_size
from tailrace.sources.archives.pre_image_files import PreImageFiles
from tailrace.sources.archives.shard_files import ShardFiles
from tailrace.sources.batch_boundaries import COMMIT_MARK, Commit
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.planning import cuts_by_size, limit_by_count, limit_by_size
from tailrace.sources.process_cache import Owner, ProcessCache
from tailrace.sources.source import OplogSource, Volume

_COUNTED_ENTRIES: Final = 20_000
_COUNTED_BYTES: Final = 8 << 20
"""Up to these limits entries are counted; beyond them their number is estimated from their positions."""
_POINTS_PER_PART: Final = 16
_SMALLEST_STEP: Final = 64 << 10

_images: Final[ProcessCache[PreImageFiles]] = ProcessCache(PreImageFiles.__exit__)
_documents: Final[ProcessCache[DocumentFiles]] = ProcessCache(DocumentFiles.__exit__)


class FilesSource(OplogSource):
    """The archived oplogs of one or more shards.

    ``pre_images`` are dumps of `config.system.preimages` by shard; those under None serve every shard.
    ``documents`` are dumps of collections by namespace, for streams that show current documents. ``store``
    are the options of the object stores that files are in, by default those of this process.
    """

    def __init__(
        self,
        shards: Mapping[str, Sequence[str]],
        pre_images: Mapping[str | None, Sequence[str]] | None = None,
        documents: Mapping[str, Sequence[str]] | None = None,
        store: Mapping[str, str] | None = None,
    ) -> None:
        if not shards:
            raise UsageError("no oplog was given; name its files, or those of every shard")
        self._shards = {
            shard: ShardFiles([archived_path(path, store) for path in paths])
            for shard, paths in shards.items()
        }
        self._pre_images = {shard: _dumps(paths, store) for shard, paths in (pre_images or {}).items()}
        self._documents = {ns: _dumps(paths, store) for ns, paths in (documents or {}).items()}
        self._owner = Owner()
        unknown = sorted(name for name in self._pre_images if name is not None and name not in self._shards)
        if unknown:
            raise UsageError(f"there are pre-images for the shard {unknown[0]!r}, but no oplog of it")

    def shards(self) -> tuple[str, ...]:
        return tuple(self._shards)

    def identity(self) -> str:
        """Return a digest of the shards' names and first entries; it stays the same when files are added."""
        digest = hashlib.sha256()
        for shard, files in sorted(self._shards.items()):
            digest.update(shard.encode() + b"\0")
            digest.update(files.first_entry)
        return digest.hexdigest()[:32]

    def oldest(self, shard: str | None = None) -> ClusterTime:
        shards = self._shards.values() if shard is None else (self._shards[shard],)
        return max(files.oldest for files in shards)

    def promised(self) -> Promise:
        return self._last

    @cached_property
    def _last(self) -> Promise:
        return Promise(max(files.last_time for files in self._shards.values()))

    @property
    def size(self) -> int:
        """About how many bytes the entries have."""
        return sum(files.size for files in self._shards.values())

    @property
    def volume(self) -> Volume:
        return FilesVolume(self._shards.values())

    def commits(self, after: int, through: int) -> list[Commit]:
        # Most archives have none; to see that takes a tenth of the time of reading entry by entry.
        if not any(files.may_contain(COMMIT_MARK) for files in self._shards.values()):
            return []
        return super().commits(after, through)

    def entries(
        self,
        shard: str,
        after: int,
        through: int,
        condition: EntryCondition = EVERYTHING,  # noqa: ARG002 - all is read
    ) -> Iterator[Sequence[bytes]]:
        return self._shards[shard].entries(after, through)

    def lookups(self, shard: str, after: int, through: int) -> Lookups:  # noqa: ARG002 - dumps are searched
        """Return look-ups in the dumps; each dump is indexed once in a process."""
        find_entry = self._shards[shard].entry
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
        _images.release(self._owner)
        _documents.release(self._owner)
        for files in self._shards.values():
            files.close()


class FilesVolume(Volume):
    """Work is measured in bytes."""

    def __init__(self, shards: Iterable[ShardFiles]) -> None:
        self._shards = tuple(shards)

    def least_bytes(self, after: int, through: int) -> int:
        return sum(files.weight_of(after, through) for files in self._shards)

    def cuts(self, after: int, through: int, parts: int) -> list[int]:
        step = max(self.least_bytes(after, through) // (parts * _POINTS_PER_PART), _SMALLEST_STEP)
        return cuts_by_size(after, through, parts, list(self._points(after, through, step)))

    def limit(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        if max_entries <= _COUNTED_ENTRIES or max_bytes <= _COUNTED_BYTES:
            entries = heapq.merge(*(_sizes(files, after, through) for files in self._shards))
            return limit_by_count(through, max_entries, max_bytes, entries)
        room = min(max_bytes, max_entries * self._usual_size(after, through))
        step = max(room // _POINTS_PER_PART, _SMALLEST_STEP)
        return limit_by_size(after, through, room, self._points(after, through, step))

    def _usual_size(self, after: int, through: int) -> int:
        """The average size of the entries at the beginning of an interval."""
        samples = [files.sample(after, through) for files in self._shards]
        count = sum(count for count, _ in samples)
        return max(sum(size for _, size in samples) // count, 1) if count else 1

    def _points(self, after: int, through: int, step: int) -> Iterator[tuple[int, int]]:
        """See `ShardFiles.points`, of all shards together; found one by one as they are asked for."""
        return heapq.merge(*(files.points(after, through, step) for files in self._shards))


def _sizes(files: ShardFiles, after: int, through: int) -> Iterator[tuple[int, int]]:
    for entries in files.entries(after, through):
        for raw in entries:
            yield entry_time(raw), len(raw)


def _dumps(paths: Sequence[str], store: Mapping[str, str] | None) -> tuple[str, ...]:
    return tuple(_dump(archived_path(path, store)) for path in paths)


def _dump(path: str) -> str:
    if isinstance(path, StoredPath):
        file_size(path)  # refuses one that is not there
        return path
    if not Path(path).is_file():
        raise UsageError(f"there is no regular file {path}, and a dump has to be one: it is searched")
    return str(Path(path).absolute())
