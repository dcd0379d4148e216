"""`balancerStart`."""

from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import right
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    context.arguments().finish()
    await context.node.placement.put_setting(balancing.SETTING, {"mode": "full", "stopped": False})
    return {}


COMMAND = Command(
    "balancerStart",
    run,
    needs=lambda _context: (right(namespace("config", "settings"), "update"),),
    help="Turn the balancer on.",
    admin_only=True,
    is_write=True,
)
