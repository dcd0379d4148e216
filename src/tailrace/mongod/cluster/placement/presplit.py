"""The first chunks of a collection: one for everything, or hashes spread evenly over the shards."""

from collections.abc import Sequence
from typing import Final

from bson import Int64

from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.shard_key import ShardKey

_GREATEST: Final = 2**63 - 1


def hashed_chunks(key: ShardKey, shards: Sequence[str], number: int | None, at: int) -> ChunkMap:
    """Even ranges of hashes, as many on each shard; ``number`` is how many at least.

    >>> chunks = hashed_chunks(ShardKey({"a": "hashed"}), ["shard0", "shard1"], 4, at=1)
    >>> [(chunk.text, chunk.shard) for chunk in chunks][1]
    ('[{ a: -4611686018427387902 }, { a: 0 })', 'shard0')
    """
    on_each = max(-(-(number or 0) // len(shards)), 1)
    total = on_each * len(shards)
    step = _GREATEST // total * 2
    path = key.paths[0]
    points = [{path: Int64((2 * place - total) * step // 2)} for place in range(1, total)]
    return ChunkMap.divided(key, points, [shard for shard in shards for _ in range(on_each)], at)
