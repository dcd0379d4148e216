"""`balancerStop`."""

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Write the balancer's setting."""
    context.arguments().finish()
    await cluster_of(context).placement.put_setting(balancing.SETTING, {"mode": "off", "stopped": True})
    return {}


COMMAND = Command(
    "balancerStop", run, help="Keeps the balancer from moving ranges.", admin_only=True, is_write=True
)
