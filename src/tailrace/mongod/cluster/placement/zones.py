"""Zones: names of groups of shards, and the ranges of collections that belong to them.

A shard's zones are in its document (`tags`), ranges are documents of `config.tags`. Clients may write these
documents themselves, so they are read every time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

from bson import ObjectId

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.config_documents import documents_of, insert_document, remove_document
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import PlacementState, Shard
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.write_unit import WriteUnit

TAGS: Final = "tags"


@dataclass(frozen=True, slots=True)
class ZoneRange:
    """A range of a collection's keys, from ``min`` (inclusive) to ``max`` (exclusive)."""

    ns: str
    min: Mapping[str, Any]
    max: Mapping[str, Any]
    zone: str


def zone_ranges(reader: Reader, ns: str) -> list[ZoneRange]:
    return [
        ZoneRange(ns, document["min"], document["max"], document["tag"])
        for document in documents_of(reader, TAGS)
        if document.get("ns") == ns
    ]


def put_range(unit: WriteUnit, added: ZoneRange) -> None:
    """Add a range, or change the zone of one that exists."""
    remove_range(unit, added.ns, added.min, added.max)
    document = {"_id": ObjectId(), "ns": added.ns, "min": dict(added.min), "max": dict(added.max)}
    insert_document(unit, TAGS, {**document, "tag": added.zone})


def remove_range(unit: WriteUnit, ns: str, low: Mapping[str, Any], high: Mapping[str, Any]) -> None:
    """Remove a range with these ends, if there is one."""
    for document in list(documents_of(unit, TAGS)):
        if (document.get("ns"), document.get("min"), document.get("max")) == (ns, low, high):
            remove_document(unit, TAGS, document["_id"])


def replace_ranges(unit: WriteUnit, ns: str, ranges: Sequence[ZoneRange]) -> None:
    """Replace all ranges of a collection."""
    for document in list(documents_of(unit, TAGS)):
        if document.get("ns") == ns:
            remove_document(unit, TAGS, document["_id"])
    for each in ranges:
        put_range(unit, each)


def follow_collections(unit: WriteUnit, before: PlacementState, after: PlacementState) -> None:
    """Remove the ranges of collections that are no longer there, and rename those of renamed ones."""
    for ns in before.collections.keys() - after.collections.keys():
        ranges = zone_ranges(unit, ns)
        if not ranges:
            continue
        renamed = after.by_uuid(before.collections[ns].uuid)
        replace_ranges(unit, ns, [])
        if renamed is not None:
            replace_ranges(
                unit, renamed.ns, [ZoneRange(renamed.ns, each.min, each.max, each.zone) for each in ranges]
            )


class ZoneMap:
    """The ranges of one collection, in the order of its keys."""

    def __init__(self, key: ShardKey, ranges: Sequence[ZoneRange], shards: Mapping[str, Shard]) -> None:
        """Ranges that do not fit the key, which clients may have written, are left out."""
        fitting = [each for each in ranges if _fits(key, each.min) and _fits(key, each.max)]
        self._ranges = sorted(fitting, key=lambda each: key.bound(each.min))
        self._key = key
        self._shards = shards

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[ZoneRange]:
        return iter(self._ranges)

    def zone_of(self, low: Mapping[str, Any], high: Mapping[str, Any]) -> str | None:
        """The zone that a range of keys is in as a whole."""
        lower, upper = self._key.bound(low), self._key.bound(high)
        for each in self._ranges:
            if self._key.bound(each.min) <= lower and upper <= self._key.bound(each.max):
                return each.zone
        return None

    def shards_of(self, zone: str | None) -> list[str]:
        """The shards that may own a range of a zone and are not being removed; all of them for no zone."""
        return [
            name
            for name, shard in self._shards.items()
            if not shard.is_draining and (zone is None or zone in shard.zones)
        ]

    def allows(self, low: Mapping[str, Any], high: Mapping[str, Any], shard: str) -> bool:
        zone = self.zone_of(low, high)
        return zone is None or zone in self._shards[shard].zones

    def misplaced(self, chunks: ChunkMap) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any], str]]:
        """Parts of chunks that are on a shard outside of their zone: the shard, both ends, the zone."""
        bound = self._key.bound
        for each in self._ranges:
            for chunk in chunks:
                low = max(chunk.min, each.min, key=bound)
                high = min(chunk.max, each.max, key=bound)
                if bound(low) < bound(high) and each.zone not in self._shards[chunk.shard].zones:
                    yield chunk.shard, low, high, each.zone

    def first_chunks(self, at: int) -> ChunkMap:
        """Chunks for an empty collection: one for each range, and for each gap between them."""
        key = self._key
        in_turn = {
            each.zone: cycle(self.shards_of(each.zone) or self.shards_of(None)) for each in self._ranges
        }
        for_gaps = cycle(self.shards_of(None))
        points: list[Mapping[str, Any]] = []
        owners: list[str] = []
        end = key.bound(key.least)
        for each in self._ranges:
            if key.bound(each.min) > end:
                owners.append(next(for_gaps))
                points.append(each.min)
            owners.append(next(in_turn[each.zone]))
            end = key.bound(each.max)
            if end < key.bound(key.greatest):
                points.append(each.max)
        if end < key.bound(key.greatest):
            owners.append(next(for_gaps))
        return ChunkMap.divided(key, points, owners, at)


def check_no_overlap(key: ShardKey, ranges: Sequence[ZoneRange], added: ZoneRange) -> None:
    """Raise RangeOverlapConflict (178) if a range overlaps another one; the same range may change zones."""
    lower, upper = key.bound(added.min), key.bound(added.max)
    for each in ranges:
        if not (_fits(key, each.min) and _fits(key, each.max)):
            continue
        other = key.bound(each.min), key.bound(each.max)
        if other != (lower, upper) and lower < other[1] and other[0] < upper:
            raise CommandError(
                ErrorCode.RangeOverlapConflict,
                f"Zone range: {dict(added.min)} -->> {dict(added.max)} on {added.ns} is overlapping with "
                f"existing: {dict(each.min)} -->> {dict(each.max)}",
            )


def check_zone_exists(shards: Mapping[str, Shard], zone: str) -> None:
    if not any(zone in shard.zones for shard in shards.values()):
        raise CommandError(ErrorCode.ZoneNotFound, f"zone {zone} does not exist")


def _fits(key: ShardKey, bound: Mapping[str, Any]) -> bool:
    given = tuple(bound)
    return bool(given) and given == key.paths[: len(given)]
