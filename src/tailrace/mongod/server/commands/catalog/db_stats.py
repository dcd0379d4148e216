"""`dbStats`: show the sums of sizes and counts of all collections of a database."""

import shutil
from typing import Any, Final

from bson import Decimal128

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_database
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.store.statistics import collection_statistics

MAX_SCALE = 2**31 - 1
_NO_CODE: Final = 0


async def run(context: MemberContext) -> dict[str, Any]:
    arguments = context.arguments()
    scale = _scale(arguments)
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
        "collections": len(collections),
        "views": views,
        "objects": objects,
        "avgObjSize": size / objects if objects else 0.0,
        "dataSize": size / scale,
        "storageSize": storage_size / scale,
        "indexes": sum(len(collection.indexes) for collection in collections),
        "indexSize": index_size / scale,
        "totalSize": (storage_size + index_size) / scale,
        "scaleFactor": float(scale),
    }
    if not collections:
        # Of a database that does not exist, a real server has whole numbers.
        empty = {name: 0 if isinstance(value, float) else value for name, value in reply.items()}
        return {**empty, "scaleFactor": scale, "fsUsedSize": 0, "fsTotalSize": 0}
    disk = shutil.disk_usage(context.node.store.tables.path)
    return {**reply, "fsUsedSize": disk.used / scale, "fsTotalSize": disk.total / scale}


def _scale(arguments: Arguments) -> int:
    """A positive number; its errors have no codes."""
    value = arguments.value("scale", 1)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal128):
        raise CommandError(0, "scale has to be a number > 0")
    scale = arguments.integer("scale", 1)
    if scale <= 0:
        raise CommandError(0, "scale has to be > 0")
    return min(scale, MAX_SCALE)


_FIELDS = old_command({})

COMMAND = Command(
    "dbStats",
    run,
    needs=on_database("dbStats"),
    help="Show sizes and counts of a database.",
    fields=_FIELDS,
    aliases=("dbstats",),
    is_read=True,
)
