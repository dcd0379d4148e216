"""`balancerStart`."""

from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    """Write the balancer's setting."""
    context.arguments().finish()
    await context.node.cluster.placement.put_setting(balancing.SETTING, {"mode": "full", "stopped": False})
    return {}


COMMAND = Command("balancerStart", run, help="Lets the balancer move ranges.", admin_only=True, is_write=True)
