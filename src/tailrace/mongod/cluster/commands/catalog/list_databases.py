"""`listDatabases` on a router: the databases of the cluster, with their sizes on each shard."""

from typing import Any, Final

from bson import Int64

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import list_databases
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.statistics import collection_statistics
from tailrace.query.match import compile_match

_MEGABYTE: Final = 1024 * 1024


async def run(context: RouterContext) -> dict[str, Any]:
    """List the databases that match the filter."""
    arguments = context.arguments()
    arguments.value(context.name)
    matches = compile_match(arguments.document("filter", {}))
    name_only = arguments.boolean("nameOnly", False)
    arguments.ignore("authorizedDatabases")
    arguments.finish()
    with context.reader() as reader:
        names = reader.catalog.databases()
        entries: list[dict[str, Any]] = (
            [{"name": name} for name in names] if name_only else [_entry(reader, name) for name in names]
        )
    found = [entry for entry in entries if matches(entry)]
    if name_only:
        return {"databases": found}
    total = sum(entry["sizeOnDisk"] for entry in found)
    return {"databases": found, "totalSize": Int64(total), "totalSizeMb": Int64(total // _MEGABYTE)}


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
