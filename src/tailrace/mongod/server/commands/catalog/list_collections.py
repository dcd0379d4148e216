"""`listCollections`: list the collections and views of a database."""

from collections.abc import Iterator
from typing import Any

from bson import Binary, Int64

from tailrace.bson.documents import encode
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.listing import batch_size, listing_reply
from tailrace.mongod.store.catalog import OPLOG_NS, Catalog, Collection, View
from tailrace.query.match import compile_match


async def run(context: Context) -> bytes:
    arguments = context.arguments()
    arguments.value(context.name)
    matches = compile_match(arguments.document("filter", {}))
    name_only = arguments.boolean("nameOnly", False)
    size = batch_size(arguments)
    arguments.ignore("authorizedCollections", "includePendingDrops", "rawData")
    arguments.finish()
    with context.reader() as reader:
        entries = list(_entries(reader.catalog, context.database, context.node.options.oplog_bytes))
    found = [entry for entry in entries if matches(entry)]
    if name_only:
        found = [{"name": entry["name"], "type": entry["type"]} for entry in found]
    ns = f"{context.database}.$cmd.listCollections"
    return listing_reply(context, ns, [encode(entry) for entry in found], size)


def _entries(catalog: Catalog, database: str, oplog_size: int) -> Iterator[dict[str, Any]]:
    collections = {collection.name: collection for collection in catalog.collections(database)}
    views = {view.name: view for view in catalog.views(database)}
    for name in sorted({*collections, *views}):
        yield _view(views[name]) if name in views else _collection(collections[name], oplog_size)


def _collection(collection: Collection, oplog_size: int) -> dict[str, Any]:
    options = dict(collection.options)
    if collection.ns == OPLOG_NS:
        options = {"capped": True, "size": Int64(oplog_size), "autoIndexId": False}
    if collection.is_timeseries:
        # The clustered index of the buckets is internal, and no option that the user gave.
        del options["clusteredIndex"]
    entry: dict[str, Any] = {
        "name": collection.name,
        "type": "timeseries" if collection.is_timeseries else "collection",
        "options": options,
        "info": {"readOnly": False, "uuid": Binary(collection.uuid, 4)},
    }
    if collection.id_index is not None:
        entry["idIndex"] = dict(collection.id_index.spec)
    return entry


def _view(view: View) -> dict[str, Any]:
    options: dict[str, Any] = {"viewOn": view.view_on, "pipeline": [dict(stage) for stage in view.pipeline]}
    if view.collation is not None:
        options["collation"] = dict(view.collation)
    return {"name": view.name, "type": "view", "options": options, "info": {"readOnly": True}}


COMMAND = Command(
    "listCollections",
    run,
    help="List the collections and views of a database.",
    is_read=True,
    same_on_router=True,
)
