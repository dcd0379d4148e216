"""`replSetStepUp`: elect this member primary, if a majority can be reached."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.replica_set.replica_set_config import check_replica_set


async def run(context: MemberContext) -> Reply:
    arguments = context.arguments()
    arguments.ignore(context.name, "skipDryRun")
    arguments.finish()
    check_replica_set(context.node)
    await context.node.step_up()
    return {}


COMMAND = Command(
    "replSetStepUp", run, needs=on_cluster("replSetStateChange"), help="Become primary.", admin_only=True
)
