"""`dbStats`: show the sums of sizes and counts of all collections of a database."""

import shutil
from typing import Any

from bson import Int64

from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.store.statistics import collection_statistics

MAX_SCALE = 2**31 - 1


async def run(context: MemberContext) -> dict[str, Any]:
    arguments = context.arguments()
    arguments.value(context.name)
    scale = arguments.integer("scale", 1, minimum=1, maximum=MAX_SCALE)
    arguments.ignore("freeStorage")
    arguments.finish()
    with context.reader() as reader:
        catalog = reader.catalog
        collections = list(catalog.collections(context.database))
        views = len(list(catalog.views(context.database)))
        found = [collection_statistics(reader, collection) for collection in collections]
    objects = sum(each.count for each in found)
    size = sum(each.size for each in found)
    storage_size = sum(each.storage_size for each in found)
    index_size = sum(each.total_index_size for each in found)
    reply: dict[str, Any] = {
        "db": context.database,
        "collections": Int64(len(collections)),
        "views": Int64(views),
        "objects": Int64(objects),
        "avgObjSize": size / objects if objects else 0.0,
        "dataSize": size / scale,
        "storageSize": storage_size / scale,
        "indexes": Int64(sum(len(collection.indexes) for collection in collections)),
        "indexSize": index_size / scale,
        "totalSize": (storage_size + index_size) / scale,
        "scaleFactor": Int64(scale),
    }
    if collections:
        disk = shutil.disk_usage(context.node.store.tables.path)
        reply |= {"fsUsedSize": disk.used / scale, "fsTotalSize": disk.total / scale}
    return reply


COMMAND = Command(
    "dbStats", run, help="Show sizes and counts of a database.", aliases=("dbstats",), is_read=True
)
