"""Sizes and counts of a collection, as `collStats` and the stage `$collStats` show them."""

from typing import TYPE_CHECKING, Any

from bson import Int64

from tailrace.mongod.server.emulation.release import CLUSTERED_FIGURES
from tailrace.mongod.store.catalog import OPLOG_NS, Collection
from tailrace.mongod.store.statistics import CollectionStatistics

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node


def described_statistics(
    collection: Collection, found: CollectionStatistics, scale: int, node: "Node"
) -> dict[str, Any]:
    """All figures, sizes divided by ``scale``."""
    is_oplog = collection.ns == OPLOG_NS
    reply: dict[str, Any] = {
        "ns": f"{collection.database}.{collection.shown_name}",
        "size": shortest(found.size // scale),
        "count": shortest(found.count),
    }
    if found.count:
        reply["avgObjSize"] = found.average_size
    reply |= {
        "numOrphanDocs": 0,
        "storageSize": shortest(found.storage_size // scale),
        "freeStorageSize": 0,
        "capped": collection.is_capped or is_oplog,
    }
    if reply["capped"]:
        size = node.oplog_size if is_oplog else collection.options["size"]
        reply["max"] = 0 if is_oplog else shortest(collection.options.get("max", 0))
        reply["maxSize"] = shortest(size // scale)
    reply |= {
        "nindexes": len(collection.indexes),
        "indexDetails": {},
        "indexBuilds": [],
        "totalIndexSize": shortest(found.total_index_size // scale),
        "totalSize": shortest((found.storage_size + found.total_index_size) // scale),
        "indexSizes": {name: shortest(size // scale) for name, size in found.index_sizes.items()},
        "scaleFactor": scale,
    }
    if collection.is_clustered and node.release.has(CLUSTERED_FIGURES):
        reply["clustered"] = True
    if collection.is_timeseries:
        reply["timeseries"] = {"bucketsNs": collection.ns, "bucketCount": shortest(found.count)}
    return reply


def shortest(number: int) -> int:
    """A figure as the shortest BSON type that holds it, as a mongod shows most of them."""
    return int(number) if -(2**31) <= number < 2**31 else Int64(number)
