"""`listIndexes`: list the indexes of a collection."""

from collections.abc import Iterator, Mapping
from typing import Any

from bson import Binary

from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.listing import batch_size, listing_reply
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.ddl.lookup import existing_collection
from tailrace.mongod.store.ddl.timeseries_indexes import shown_spec


async def run(context: Context) -> bytes:

    arguments = context.arguments()
    arguments.value(context.name)
    size = batch_size(arguments)
    arguments.ignore("includeBuildUUIDs", "includeIndexBuildInfo", "isTimeseriesNamespace", "rawData")
    arguments.finish()
    with context.reader() as reader:
        collection = _collection(context, reader.catalog)
    specs = [encode(spec) for spec in _specs(collection)]
    return listing_reply(context, collection.ns, specs, size)


def _collection(context: Context, catalog: Catalog) -> Collection:
    named = context.command[context.name]
    if isinstance(named, Binary) and named.subtype == 4 and len(named) == 16:
        collection = catalog.by_uuid(bytes(named))
        if collection is None or collection.database != context.database:
            raise CommandError(ErrorCode.NamespaceNotFound, f"Unable to resolve {named.as_uuid()}")
        return collection
    return existing_collection(catalog, context.database, context.collection_name())


def _specs(collection: Collection) -> Iterator[dict[str, Any]]:
    clustered = collection.options.get("clusteredIndex")
    if isinstance(clustered, Mapping):
        yield {**clustered, "clustered": True}
    for index in collection.indexes:
        yield shown_spec(index)


COMMAND = Command(
    "listIndexes", run, help="List the indexes of a collection.", is_read=True, same_on_router=True
)
