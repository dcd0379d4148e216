"""`planCacheListFilters`: show the index filters of a collection."""

from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    name = context.collection_name()
    collection = context.node.store.catalog.collection(f"{context.database}.{name}")
    return {"filters": [] if collection is None else context.node.index_filters.of(collection.uuid)}


COMMAND = Command(
    "planCacheListFilters",
    run,
    needs=on_collection("planCacheIndexFilter"),
    help="Show the index filters of a collection.",
)
