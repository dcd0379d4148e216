"""Choose the split points of chunks: evenly spread hashes, a sample, the median, or a number of bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bson import Int64

from tailrace.mongod.cluster.placement.chunk_map import Chunk, ChunkMap
from tailrace.mongod.cluster.placement.key_range import KeyRange
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.store.reader import Reader

_GREATEST_HASH: Final = 2**63 - 1
_SAMPLE_SIZE: Final = 20_000


def hashed_chunks(key: ShardKey, shards: Sequence[str], number: int | None, at: int) -> ChunkMap:
    """At least ``number`` chunks with equal ranges of hashes, the same number on each shard.

    >>> chunks = hashed_chunks(ShardKey({"a": "hashed"}), ["shard0", "shard1"], 4, at=1)
    >>> [(chunk.text, chunk.shard) for chunk in chunks][1]
    ('[{ a: -4611686018427387902 }, { a: 0 })', 'shard0')
    """
    on_each = max(-(-(number or 0) // len(shards)), 1)
    total = on_each * len(shards)
    step = _GREATEST_HASH // total * 2
    path = key.paths[0]
    points = [{path: Int64((2 * place - total) * step // 2)} for place in range(1, total)]
    return ChunkMap.divided(key, points, [shard for shard in shards for _ in range(on_each)], at)


def sampled_chunks(
    reader: Reader, ns: str, key: ShardKey, shards: Sequence[str], number: int, at: int
) -> ChunkMap:
    """Up to ``number`` chunks with about the same number of documents; fewer if there are fewer keys.

    Neighbouring chunks are on the same shard. ``reader`` reads the whole cluster.
    """
    sample = _sample_keys(reader, ns, key)
    places = sorted(sample)
    cuts = (places[len(places) * part // number] for part in range(1, number) if places)
    points = [sample[place] for place in dict.fromkeys(cuts) if place > places[0]]
    total = len(points) + 1
    return ChunkMap.divided(key, points, [shards[part * len(shards) // total] for part in range(total)], at)


def _sample_keys(reader: Reader, ns: str, key: ShardKey) -> dict[bytes, dict[str, Any]]:
    """The shard keys of every n-th document, as bounds, by their KeyStrings."""
    found: dict[bytes, dict[str, Any]] = {}
    collection = reader.catalog.collection(ns)
    if collection is None:
        return found
    step = max(reader.count(collection)[0] // _SAMPLE_SIZE, 1)
    for position, (_, document) in enumerate(reader.records(collection)):
        if position % step == 0:
            found[key.key_of(document)] = key.hashed(key.values_of(document))
    return found


def median_key(reader: Reader, collection: TrackedCollection, chunk: Chunk) -> Mapping[str, Any] | None:
    """The key of the middle document of a chunk; None if all documents have the lower end as their key.

    ``reader`` reads the shard that owns the chunk.
    """
    stored = reader.catalog.by_uuid(collection.uuid)
    if stored is None:
        return None
    key = collection.key
    within = KeyRange.between(key, chunk.min, chunk.max)
    records = [record for record, _ in within.records(reader, stored)]
    for record in records[len(records) // 2 :]:
        document = reader.record(stored, record)
        # The lower end is not a split point: every document would be above it.
        if document is not None and key.key_of(document) > within.lower:
            return key.hashed(key.values_of(document))
    return None


def point_at_size(reader: Reader, uuid: bytes, within: KeyRange, size: float) -> dict[str, Any] | None:
    """The key before which the documents of a range, counted from its lower end, have ``size`` bytes.

    None if the range has no such key. ``reader`` reads the shard that owns the range.
    """
    collection = reader.catalog.by_uuid(uuid)
    if collection is None:
        return None
    passed = 0
    last = within.lower
    for _, document in within.records(reader, collection):
        place = within.key.key_of(document)
        # Documents with equal keys cannot be separated, and a cut at the lower end separates nothing.
        if passed >= size and place > last:
            return within.key.hashed(within.key.values_of(document))
        passed += len(document)
        last = place
    return None
