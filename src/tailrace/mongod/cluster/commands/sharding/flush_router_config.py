"""`flushRouterConfig`."""

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    """Read the placement again, although it is never stale."""
    await context.node.placement.load()
    return {"flushed": True}


COMMAND = Command(
    "flushRouterConfig",
    run,
    needs=on_cluster("flushRouterConfig"),
    help="Read the placement of databases and collections again.",
    aliases=("flushrouterconfig",),
    admin_only=True,
)
