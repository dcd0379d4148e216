"""`balancerStatus`."""

from bson import Int64

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Whether it is on, and what it has done."""
    context.arguments().finish()
    placement = cluster_of(context).placement
    progress = placement.balancer
    return {
        "mode": "full" if balancing.is_on(placement) else "off",
        "inBalancerRound": progress.is_in_round,
        "numBalancerRounds": Int64(progress.rounds),
    }


COMMAND = Command("balancerStatus", run, help="Tells what the balancer does.", admin_only=True)
