"""`collStats`: show sizes and counts of a collection."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.admin.collection_figures import described_statistics
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import GIVEN_FLAG, OLD_COLLECTION, at_least
from tailrace.mongod.store.ddl.lookup import existing_collection
from tailrace.mongod.store.statistics import collection_statistics

MAX_SCALE = 2**31 - 1


async def run(context: Context) -> dict[str, Any]:
    """All figures are zero if the collection does not exist."""
    name = context.collection_name(wrong_type=ErrorCode.InvalidNamespace)
    arguments = context.arguments()
    scale = arguments.integer("scale", 1, minimum=1, maximum=MAX_SCALE)
    ns = f"{context.database}.{name}"
    with context.reader() as reader:
        catalog = reader.catalog
        if catalog.collection(ns) is None and catalog.view(ns) is None:
            return _missing(ns, scale)
        collection = existing_collection(catalog, context.database, name)
        statistics = collection_statistics(reader, collection)
    return described_statistics(collection, statistics, scale, context.node)


def _missing(ns: str, scale: int) -> dict[str, Any]:
    zeros = ("size", "count", "numOrphanDocs", "storageSize", "totalSize", "nindexes", "totalIndexSize")
    figures = dict.fromkeys(zeros, 0)
    return {"ns": ns, **figures, "indexDetails": {}, "indexSizes": {}, "scaleFactor": scale}


_FIELDS = old_command(
    {
        "collStats": OLD_COLLECTION, "collstats": OLD_COLLECTION, "scale": at_least(1), "verbose": GIVEN_FLAG,
        "waitForLock": GIVEN_FLAG, "numericOnly": GIVEN_FLAG,
    }
)  # fmt: skip

COMMAND = Command(
    "collStats",
    run,
    needs=on_collection("collStats"),
    help="Show sizes and counts of a collection.",
    fields=_FIELDS,
    aliases=("collstats",),
    is_read=True,
)
