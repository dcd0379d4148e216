"""Where to split a chunk into two with as many documents each."""

from collections.abc import Mapping
from typing import Any

from tailrace.mongod.cluster.placement.chunk_map import Chunk
from tailrace.mongod.cluster.placement.state import ShardedCollection
from tailrace.mongod.store.reader import Reader


def median_key(reader: Reader, collection: ShardedCollection, chunk: Chunk) -> Mapping[str, Any] | None:
    """The key in the middle of a chunk's documents; None if none lies between its ends.

    ``reader`` is the owner's.
    """
    stored = reader.catalog.by_uuid(collection.uuid)
    if stored is None:
        return None
    lower, upper = collection.chunks.bounds_of(chunk)
    key = collection.key
    found: list[tuple[bytes, bytes]] = []
    for record, document in reader.records(stored):
        place = key.key_of(document)
        if lower <= place and (upper is None or place < upper):
            found.append((place, record))
    found.sort()
    # The lower end is no split point: everything would be above it.
    middle = next((item for item in found[len(found) // 2 :] if item[0] > lower), None)
    chosen = None if middle is None else reader.record(stored, middle[1])
    return None if chosen is None else key.hashed(key.values_of(chosen))
