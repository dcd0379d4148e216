"""`replSetGetConfig`: show the set's configuration."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import GIVEN_LOOSE_FLAG
from tailrace.mongod.server.replica_set.replica_set_config import check_replica_set, configuration


async def run(context: MemberContext) -> Reply:
    """With `commitmentStatus`, the reply also states that it is committed."""
    arguments = context.arguments()
    show_status = arguments.boolean("commitmentStatus", False)
    arguments.finish()
    check_replica_set(context.node)
    reply = {"config": configuration(context.node)}
    return {**reply, "commitmentStatus": True} if show_status else reply


_FIELDS = old_command({"commitmentStatus": GIVEN_LOOSE_FLAG, "$_internalIncludeNewlyAdded": GIVEN_LOOSE_FLAG})

COMMAND = Command(
    "replSetGetConfig",
    run,
    needs=on_cluster("replSetGetConfig"),
    help="Show the set's configuration.",
    fields=_FIELDS,
    admin_only=True,
)
