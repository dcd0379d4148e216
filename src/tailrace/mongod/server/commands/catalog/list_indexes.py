"""`listIndexes`: list the indexes of a collection."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bson import Binary

from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import CURSOR, LATER, command
from tailrace.mongod.server.dispatch.kinds import COLLECTION_OR_UUID, FLAG, LOOSE_FLAG
from tailrace.mongod.server.reads.listing import batch_size, listing_reply
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.ddl.listed_index import listed_spec
from tailrace.mongod.store.ddl.lookup import existing_collection
from tailrace.mongod.store.ddl.timeseries_indexes import shown_spec

_OF_CLUSTERED: Final = ("expireAfterSeconds", "collation")


async def run(context: Context) -> bytes:
    arguments = context.arguments()
    size = batch_size(arguments)
    with_uuids, with_builds = arguments.truth("includeBuildUUIDs"), arguments.truth("includeIndexBuildInfo")
    arguments.ignore("isTimeseriesNamespace", "rawData")
    arguments.finish()
    if with_uuids and with_builds:
        reason = "The includeBuildUUIDs flag and includeBuildIndexInfo flag cannot both be set to true"
        raise CommandError(ErrorCode.InvalidOptions, reason)
    with context.reader() as reader:
        collection = _collection(context, reader.catalog)
    # No index is listed before it is built, so there is nothing to add about its build.
    specs = [encode({"spec": spec} if with_builds else spec) for spec in _specs(collection)]
    return listing_reply(context, f"{collection.database}.{collection.shown_name}", specs, size)


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
        shown = {name: collection.options[name] for name in _OF_CLUSTERED if name in collection.options}
        yield listed_spec({**clustered, **shown, "clustered": True})
    for index in collection.indexes:
        yield listed_spec(shown_spec(collection, index))


_FIELDS = command(
    {
        "listIndexes": COLLECTION_OR_UUID, "cursor": CURSOR, "includeBuildUUIDs": LOOSE_FLAG,
        "includeIndexBuildInfo": LOOSE_FLAG, "isTimeseriesNamespace": FLAG, "rawData": FLAG,
    },
    since={"rawData": LATER},
)  # fmt: skip

COMMAND = Command(
    "listIndexes",
    run,
    needs=on_collection("listIndexes"),
    help="List the indexes of a collection.",
    fields=_FIELDS,
    is_read=True,
    same_on_router=True,
)
