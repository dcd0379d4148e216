"""`collStats`: how much there is in a collection."""

from typing import Any

from bson import Int64

from tailrace.server.command import Command
from tailrace.server.context import Context
from tailrace.store.catalog import Collection
from tailrace.store.ddl.lookup import existing_collection
from tailrace.store.statistics import CollectionStatistics, collection_statistics

MAX_SCALE = 2**31 - 1


async def run(context: Context) -> dict[str, Any]:
    """The figures of a collection; zeros if it is not there."""
    name = context.collection_name()
    arguments = context.arguments()
    scale = arguments.integer("scale", 1, minimum=1, maximum=MAX_SCALE)
    arguments.ignore("verbose", "waitForLock", "numericOnly", "rawData")
    arguments.finish()
    ns = f"{context.database}.{name}"
    with context.reader() as reader:
        catalog = reader.catalog
        if catalog.collection(ns) is None and catalog.view(ns) is None:
            return _missing(ns, scale)
        collection = existing_collection(catalog, context.database, name)
        statistics = collection_statistics(reader, collection)
    return _described(collection, statistics, scale)


def _described(collection: Collection, found: CollectionStatistics, scale: int) -> dict[str, Any]:
    reply: dict[str, Any] = {
        "ns": collection.ns,
        "size": Int64(found.size // scale),
        "count": Int64(found.count),
        "numOrphanDocs": Int64(0),
        "storageSize": Int64(found.storage_size // scale),
        "freeStorageSize": Int64(0),
        "capped": collection.is_capped,
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
    if collection.is_capped:
        reply["max"] = Int64(collection.options.get("max", 0))
        reply["maxSize"] = Int64(collection.options["size"] // scale)
    if collection.is_clustered:
        reply["clustered"] = True
    if collection.is_timeseries:
        reply["timeseries"] = {"bucketsNs": collection.ns, "bucketCount": Int64(found.count)}
    return reply


def _missing(ns: str, scale: int) -> dict[str, Any]:
    zeros = ("size", "count", "numOrphanDocs", "storageSize", "totalSize", "nindexes", "totalIndexSize")
    figures = dict.fromkeys(zeros, 0)
    return {"ns": ns, **figures, "indexDetails": {}, "indexSizes": {}, "scaleFactor": scale}


COMMAND = Command(
    "collStats", run, help="Shows how much there is in a collection.", aliases=("collstats",), is_read=True
)
