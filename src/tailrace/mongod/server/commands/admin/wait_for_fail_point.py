"""`waitForFailPoint`: wait until a fail point was entered often enough."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """`maxTimeMS` limits the wait."""
    arguments = context.arguments()
    name = arguments.text(context.name)
    times = arguments.integer("timesEntered", minimum=0)
    arguments.finish()
    await context.node.fail_points.wait_entered(name, times)
    return {}


COMMAND = Command(
    "waitForFailPoint",
    run,
    needs=on_cluster("setParameter"),
    help="Wait for a fail point.",
    admin_only=True,
    is_test_command=True,
    same_on_router=True,
)
