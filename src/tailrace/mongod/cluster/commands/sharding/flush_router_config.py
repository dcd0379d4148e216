"""`flushRouterConfig`."""

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Read the placement again; all routers share one, and it is never stale."""
    await cluster_of(context).placement.load()
    return {"flushed": True}


COMMAND = Command(
    "flushRouterConfig",
    run,
    help="Reads the placement of databases and collections again.",
    aliases=("flushrouterconfig",),
    admin_only=True,
)
