"""How much of a range is a certain number of bytes."""

from typing import Any

from tailrace.mongod.cluster.placement.key_range import KeyRange
from tailrace.mongod.store.reader import Reader


def point_at_size(reader: Reader, uuid: bytes, within: KeyRange, size: float) -> dict[str, Any] | None:
    """The key at which a shard's documents from the lower end on have come to ``size`` bytes.

    None if there is no such key below the upper end. ``reader`` is the owner's.
    """
    collection = reader.catalog.by_uuid(uuid)
    if collection is None:
        return None
    passed = 0
    last = within.lower
    for _, document in within.records(reader, collection):
        place = within.key.key_of(document)
        # Documents with the same key cannot be parted, and a cut at the lower end cuts nothing off.
        if passed >= size and place > last:
            return within.key.hashed(within.key.values_of(document))
        passed += len(document)
        last = place
    return None
