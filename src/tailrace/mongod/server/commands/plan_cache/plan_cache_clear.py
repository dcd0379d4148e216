"""`planCacheClear`: has no effect, because each query is planned by itself."""

from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.admin.index_filters import wanted_shape
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    context.collection_name()
    wanted_shape(context.command)
    return {}


COMMAND = Command(
    "planCacheClear",
    run,
    needs=on_collection("planCacheWrite"),
    help="Forget the plans of a collection.",
    same_on_router=True,
)
