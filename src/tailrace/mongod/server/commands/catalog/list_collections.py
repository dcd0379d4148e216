"""`listCollections`: list the collections and views of a database."""

from collections.abc import Iterator
from typing import Any, Final

from bson import Binary, Int64

from tailrace.bson.documents import encode
from tailrace.mongod.server.access.authorization import privileges_of
from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import CURSOR, LATER, command
from tailrace.mongod.server.dispatch.kinds import FLAG, LOOSE_FLAG, OBJECT
from tailrace.mongod.server.reads.listing import batch_size, listing_reply
from tailrace.mongod.store.catalog import OPLOG_NS, Catalog, Collection, View
from tailrace.query.match import compile_match

_OF_BUCKETS: Final = frozenset({"validator", "clusteredIndex"})


async def run(context: Context) -> bytes:
    arguments = context.arguments()
    matches = compile_match(arguments.document("filter", {}))
    name_only = arguments.boolean("nameOnly", False, strict=True)
    size = batch_size(arguments)
    arguments.boolean("authorizedCollections", False, strict=True)
    arguments.ignore("includePendingDrops", "rawData")
    arguments.finish()
    with context.reader() as reader:
        entries = list(_entries(reader.catalog, context.database, context.node.oplog_size))
    if context.client.guard is not None and _lists_only_authorized(context):
        privileges = privileges_of(context)
        entries = [
            entry for entry in entries if privileges.concern(namespace(context.database, entry["name"]))
        ]
    found = [entry for entry in entries if matches(entry)]
    if name_only:
        found = [{"name": entry["name"], "type": entry["type"]} for entry in found]
    ns = f"{context.database}.$cmd.listCollections"
    return listing_reply(context, ns, [encode(entry) for entry in found], size)


def _entries(catalog: Catalog, database: str, oplog_size: int) -> Iterator[dict[str, Any]]:
    for collection in catalog.collections(database):
        yield _collection(collection, oplog_size)
        if collection.is_timeseries:
            yield _timeseries(collection)
    for view in catalog.views(database):
        yield _view(view)


def _collection(collection: Collection, oplog_size: int) -> dict[str, Any]:
    options = dict(collection.options)
    if collection.ns == OPLOG_NS:
        options = {"capped": True, "size": Int64(oplog_size), "autoIndexId": False}
    entry: dict[str, Any] = {
        "name": collection.name,
        "type": "collection",
        "options": options,
        "info": {"readOnly": False, "uuid": Binary(collection.uuid, 4)},
    }
    if collection.id_index is not None:
        entry["idIndex"] = dict(collection.id_index.spec)
    return entry


def _timeseries(collection: Collection) -> dict[str, Any]:
    """The view on the buckets, with the options that the user gave."""
    options = {name: value for name, value in collection.options.items() if name not in _OF_BUCKETS}
    name = collection.shown_name
    return {"name": name, "type": "timeseries", "options": options, "info": {"readOnly": False}}


def _view(view: View) -> dict[str, Any]:
    options: dict[str, Any] = {"viewOn": view.view_on, "pipeline": [dict(stage) for stage in view.pipeline]}
    if view.collation is not None:
        options["collation"] = dict(view.collation)
    return {"name": view.name, "type": "view", "options": options, "info": {"readOnly": True}}


def _needs(context: Context) -> Rights:
    """Nothing for the names of what the user has a right on; the list is filtered then."""
    if _lists_only_authorized(context) and privileges_of(context).concern_database(context.database):
        return ()
    return (right(namespace(context.database), "listCollections"),)


def _lists_only_authorized(context: Context) -> bool:
    command = context.command
    return command.get("nameOnly") is True and command.get("authorizedCollections") is True


_FIELDS = command(
    {
        "filter": OBJECT, "cursor": CURSOR, "nameOnly": FLAG, "authorizedCollections": FLAG,
        "includePendingDrops": LOOSE_FLAG, "rawData": FLAG,
    },
    since={"rawData": LATER},
)  # fmt: skip

COMMAND = Command(
    "listCollections",
    run,
    needs=_needs,
    help="List the collections and views of a database.",
    fields=_FIELDS,
    is_read=True,
    same_on_router=True,
)
