"""`balancerStatus`."""

from bson import Int64

from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import right
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    """Whether it is on, and the rounds so far."""
    context.arguments().finish()
    placement = context.node.placement
    progress = placement.balancer
    return {
        "mode": "full" if balancing.is_on(placement) else "off",
        "inBalancerRound": progress.is_in_round,
        "numBalancerRounds": Int64(progress.rounds),
    }


COMMAND = Command(
    "balancerStatus",
    run,
    needs=lambda _context: (right(namespace("config", "settings"), "find"),),
    help="Show the state of the balancer.",
    admin_only=True,
)
