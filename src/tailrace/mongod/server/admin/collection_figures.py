"""Sizes and counts of a collection, as `collStats` and the stage `$collStats` show them."""

from typing import Any

from bson import Int64

from tailrace.mongod.store.catalog import OPLOG_NS, Collection
from tailrace.mongod.store.statistics import CollectionStatistics


def described_statistics(
    collection: Collection, found: CollectionStatistics, scale: int, oplog_size: int
) -> dict[str, Any]:
    """All figures, sizes divided by ``scale``; the oplog is capped at ``oplog_size``."""
    is_oplog = collection.ns == OPLOG_NS
    reply: dict[str, Any] = {
        "ns": f"{collection.database}.{collection.shown_name}",
        "size": Int64(found.size // scale),
        "count": Int64(found.count),
        "numOrphanDocs": Int64(0),
        "storageSize": Int64(found.storage_size // scale),
        "freeStorageSize": Int64(0),
        "capped": collection.is_capped or is_oplog,
        "nindexes": len(collection.indexes),
        "indexDetails": {},
        "indexBuilds": [],
        "totalIndexSize": Int64(found.total_index_size // scale),
        "indexSizes": {name: Int64(size // scale) for name, size in found.index_sizes.items()},
        "totalSize": Int64((found.storage_size + found.total_index_size) // scale),
        "scaleFactor": scale,
    }
    if found.count:
        reply["avgObjSize"] = found.average_size
    if is_oplog:
        reply["max"] = Int64(0)
        reply["maxSize"] = Int64(oplog_size // scale)
    elif collection.is_capped:
        reply["max"] = Int64(collection.options.get("max", 0))
        reply["maxSize"] = Int64(collection.options["size"] // scale)
    if collection.is_clustered:
        reply["clustered"] = True
    if collection.is_timeseries:
        reply["timeseries"] = {"bucketsNs": collection.ns, "bucketCount": Int64(found.count)}
    return reply
