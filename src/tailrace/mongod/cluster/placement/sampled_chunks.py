"""Chunks for a collection that has documents: as many of them in each, by a sample."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.shard_key import ShardKey

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster

_SAMPLE: Final = 20_000


def sampled_chunks(
    cluster: "Cluster", ns: str, key: ShardKey, shards: Sequence[str], number: int, at: int
) -> ChunkMap:
    """Up to ``number`` chunks, neighbours together on one of the shards; fewer if there are fewer keys."""
    sample = _sample(cluster, ns, key)
    places = sorted(sample)
    cuts = (places[len(places) * part // number] for part in range(1, number) if places)
    points = [sample[place] for place in dict.fromkeys(cuts) if place > places[0]]
    total = len(points) + 1
    return ChunkMap.divided(key, points, [shards[part * len(shards) // total] for part in range(total)], at)


def _sample(cluster: "Cluster", ns: str, key: ShardKey) -> dict[bytes, dict[str, Any]]:
    """Keys of documents, every so many of them, by their places."""
    found: dict[bytes, dict[str, Any]] = {}
    state = cluster.states.snapshot()
    try:
        collection = state.catalog.collection(ns)
        if collection is None:
            return found
        step = max(state.count(collection)[0] // _SAMPLE, 1)
        for position, (_, document) in enumerate(state.records(collection)):
            if position % step == 0:
                found[key.key_of(document)] = key.hashed(key.values_of(document))
    finally:
        state.close()
    return found
