"""`planCacheClearFilters`: remove index filters of a collection."""

from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.admin.index_filters import wanted_shape
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    name = context.collection_name()
    shape = wanted_shape(context.command)
    collection = context.node.store.catalog.collection(f"{context.database}.{name}")
    if collection is not None:
        context.node.index_filters.clear(collection.uuid, shape)
    return {}


COMMAND = Command(
    "planCacheClearFilters",
    run,
    needs=on_collection("planCacheIndexFilter"),
    help="Remove index filters of a collection.",
)
