"""An immutable map from ranges of shard keys to shards, without gaps.

A chunk contains its lower end but not its upper end; only the last one contains its upper end, MaxKey.
Finding an owner is one binary search.

Versions count changes as MongoDB does: a migration increments the major number, a split or a merge the minor
one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from typing import Any, NamedTuple

from bson import ObjectId

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.shard_key import ShardKey


class ChunkVersion(NamedTuple):
    major: int = 1
    minor: int = 0


class OwnershipPeriod(NamedTuple):
    """A shard that owned a chunk, and since when."""

    since: int
    """Cluster time"""
    shard: str


@dataclass(frozen=True, slots=True)
class Chunk:
    min: Mapping[str, Any]
    max: Mapping[str, Any]
    shard: str
    version: ChunkVersion
    history: tuple[OwnershipPeriod, ...] = ()
    """Owners, newest first; the first is the current one"""
    id: ObjectId = field(default_factory=ObjectId)
    is_jumbo: bool = False

    @property
    def text(self) -> str:
        """Both ends, for messages."""
        return f"[{shell(dict(self.min))}, {shell(dict(self.max))})"


class ChunkMap:
    """All chunks of one collection.

    >>> key = ShardKey({"a": 1})
    >>> chunks = ChunkMap.whole(key, "shard0", at=1).split([{"a": 10}]).move({"a": 10}, None, "shard1", at=2)
    >>> [(chunk.text, chunk.shard, *chunk.version) for chunk in chunks]
    [('[{ a: MinKey }, { a: 10 })', 'shard0', 2, 1), ('[{ a: 10 }, { a: MaxKey })', 'shard1', 2, 0)]
    >>> chunks.owner_of(key.bound({"a": 9})), chunks.owner_of(key.bound({"a": "x"}))
    ('shard0', 'shard1')
    """

    __slots__ = ("_chunks", "_lowers", "key", "owners", "version")

    def __init__(self, key: ShardKey, chunks: Sequence[Chunk]) -> None:
        self.key = key
        self._chunks = tuple(chunks)
        self._lowers = [key.bound(chunk.min) for chunk in chunks]
        self.owners = tuple(sorted({chunk.shard for chunk in chunks}))
        """Sorted by name"""
        self.version = max(chunk.version for chunk in chunks)

    @classmethod
    def whole(cls, key: ShardKey, shard: str, at: int) -> "ChunkMap":
        """A map with one chunk."""
        return cls.divided(key, [], [shard], at)

    @classmethod
    def divided(
        cls, key: ShardKey, points: Sequence[Mapping[str, Any]], shards: Sequence[str], at: int
    ) -> "ChunkMap":
        """New chunks with these split points; ``shards`` has the owner of each chunk, in order."""
        ends = [key.least, *map(key.full_bound, points), key.greatest]
        return cls(
            key,
            [
                Chunk(low, high, shard, ChunkVersion(1, number), (OwnershipPeriod(at, shard),))
                for number, ((low, high), shard) in enumerate(zip(pairwise(ends), shards, strict=True))
            ],
        )

    # -- queries ------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    def owner_of(self, key: bytes) -> str:
        """The shard that owns a document with this key."""
        return self._chunks[bisect_right(self._lowers, key) - 1].shard

    def chunk_of(self, key: bytes) -> Chunk:
        """The chunk that contains a key."""
        return self._chunks[bisect_right(self._lowers, key) - 1]

    def owners_of(self, lower: bytes, upper: bytes | None) -> set[str]:
        """The shards that own keys from ``lower`` (inclusive) to ``upper`` (exclusive); None means no end."""
        first, end = self._span(lower, upper)
        return {chunk.shard for chunk in self._chunks[first:end]}

    def of_shard(self, shard: str) -> list[Chunk]:
        return [chunk for chunk in self._chunks if chunk.shard == shard]

    def version_of(self, shard: str) -> ChunkVersion:
        """The newest version among a shard's chunks; 0|0 if it has none."""
        return max((chunk.version for chunk in self._chunks if chunk.shard == shard), default=_NO_VERSION)

    def exact(self, low: Mapping[str, Any], high: Mapping[str, Any]) -> Chunk:
        """The chunk with exactly these ends; raises BadValue (2) if there is none."""
        lower = self.key.bound(low)
        place = bisect_left(self._lowers, lower)
        if place < len(self._chunks) and self._lowers[place] == lower:
            chunk = self._chunks[place]
            if self.key.bound(chunk.max) == self.key.bound(high):
                return chunk
        raise CommandError(
            ErrorCode.BadValue,
            f"no chunk has the bounds {shell(dict(low))} and {shell(dict(high))}; "
            "config.chunks lists the chunks",
        )

    def _span(self, lower: bytes, upper: bytes | None) -> tuple[int, int]:
        """The positions of the chunks that overlap a range: the first, and the one after the last."""
        first = max(bisect_right(self._lowers, lower) - 1, 0)
        return first, len(self._chunks) if upper is None else bisect_left(self._lowers, upper)

    # -- changes ------------------------------------------------------------------------------------------

    def split(self, points: Sequence[Mapping[str, Any]]) -> "ChunkMap":
        """Split chunks at these points; raises InvalidOptions (72) if a point is already an end."""
        chunks = list(self._chunks)
        major, minor = self.version
        for point in sorted(points, key=self.key.bound, reverse=True):
            place = bisect_right(self._lowers, self.key.bound(point)) - 1
            chunk = chunks[place]
            if place < 0 or self.key.bound(point) in (self._lowers[place], self.key.bound(chunk.max)):
                raise CommandError(
                    ErrorCode.InvalidOptions,
                    f"the chunks cannot be split at {shell(dict(point))}: it is already the end of a chunk",
                )
            middle = self.key.full_bound(point)
            low = replace(chunk, max=middle, version=ChunkVersion(major, minor + 1))
            high = replace(chunk, min=middle, version=ChunkVersion(major, minor + 2), id=ObjectId())
            minor += 2
            chunks[place : place + 1] = [low, high]
        return ChunkMap(self.key, chunks)

    def move(self, low: Mapping[str, Any], high: Mapping[str, Any] | None, shard: str, at: int) -> "ChunkMap":
        """Make a shard the owner of a range from a cluster time on; chunks at its ends are split.

        Without ``high`` the range ends where the chunk with ``low`` ends.
        """
        lower = self.key.bound(low)
        end = self.chunk_of(lower).max if high is None else high
        upper = self.key.bound(end)
        known = {*self._lowers, self.key.bound(self.key.greatest)}
        points = [point for point, key in ((low, lower), (end, upper)) if key not in known]
        cut = self.split(points) if points else self
        versions = (ChunkVersion(cut.version.major + 1, minor) for minor in count())
        moved: list[Chunk] = []
        donors: set[str] = set()
        for chunk, chunk_lower in zip(cut._chunks, cut._lowers, strict=True):
            if lower <= chunk_lower < upper and chunk.shard != shard:
                donors.add(chunk.shard)
                history = (OwnershipPeriod(at, shard), *chunk.history)
                chunk = replace(chunk, shard=shard, version=next(versions), history=history, is_jumbo=False)
            moved.append(chunk)
        # A donor with chunks left gets a new version on one of them, to show that ownership has changed.
        for donor in sorted(donors):
            place = next((place for place, chunk in enumerate(moved) if chunk.shard == donor), None)
            if place is not None:
                moved[place] = replace(moved[place], version=next(versions))
        return ChunkMap(self.key, moved)

    def merge(self, low: Mapping[str, Any], high: Mapping[str, Any], at: int) -> "ChunkMap":
        """Merge the chunks from ``low`` to ``high``, which must be on one shard."""
        lower, upper = self.key.bound(low), self.key.bound(high)
        is_last = upper == self.key.bound(self.key.greatest)
        first, end = self._span(lower, None if is_last else upper)
        run = self._chunks[first:end]
        if not run or self._lowers[first] != lower or self.key.bound(run[-1].max) != upper:
            raise CommandError(
                ErrorCode.IllegalOperation,
                f"{shell(dict(low))} and {shell(dict(high))} are not the ends of chunks; "
                "config.chunks lists the chunks",
            )
        if len({chunk.shard for chunk in run}) > 1:
            raise CommandError(
                ErrorCode.IllegalOperation,
                f"the chunks from {shell(dict(low))} to {shell(dict(high))} are on several shards; "
                "only neighbours on one shard can be merged",
            )
        major, minor = self.version
        since = max(chunk.history[0].since if chunk.history else at for chunk in run)
        merged = replace(
            run[0],
            max=run[-1].max,
            version=ChunkVersion(major, minor + 1),
            history=(OwnershipPeriod(since, run[0].shard),),
            is_jumbo=False,
        )
        return ChunkMap(self.key, [*self._chunks[:first], merged, *self._chunks[end:]])

    def refined(self, key: ShardKey) -> "ChunkMap":
        """The same ranges under a key with further fields, whose bounds are MinKey."""
        chunks = [
            replace(chunk, min=key.full_bound(chunk.min), max=key.full_bound(chunk.max))
            for chunk in self._chunks
        ]
        chunks[-1] = replace(chunks[-1], max=key.greatest)
        return ChunkMap(key, chunks)


_NO_VERSION = ChunkVersion(0, 0)
