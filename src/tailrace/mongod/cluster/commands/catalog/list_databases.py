"""`listDatabases` on a router: the databases of the cluster, with their sizes on each shard."""

from typing import Any

from bson import Int64

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import list_databases
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.statistics import collection_statistics


async def run(context: RouterContext) -> dict[str, Any]:
    return list_databases.list_databases(context, _entry)


def _entry(reader: Reader, database: str) -> dict[str, Any]:
    sizes: dict[str, int] = {}
    for collection in reader.catalog.collections(database):
        for part in reader.parts(collection):
            found = collection_statistics(part.reader, part.collection)
            shard = part.shard or ""
            sizes[shard] = sizes.get(shard, 0) + found.storage_size + found.total_index_size
    return {
        "name": database,
        "sizeOnDisk": Int64(sum(sizes.values())),
        "empty": False,
        "shards": {shard: Int64(size) for shard, size in sizes.items()},
    }


COMMAND = list_databases.COMMAND.run_by(run)
