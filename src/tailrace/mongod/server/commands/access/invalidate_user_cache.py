"""`invalidateUserCache`: read users and roles again."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY


async def run(context: Context) -> Reply:
    context.arguments().finish()
    context.node.access.changed()
    return {}


_FIELDS = command({"invalidateUserCache": ANY})

COMMAND = Command(
    "invalidateUserCache",
    run,
    needs=on_cluster("invalidateUserCache"),
    help="Read users and roles again.",
    fields=_FIELDS,
    same_on_router=True,
)
