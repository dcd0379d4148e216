"""`serverStatus`: show counters and states of a server."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.admin.status_sections import SECTIONS, describe, head
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command


async def run(context: MemberContext) -> Reply:
    return {**head(context.node), **describe(context.node, SECTIONS, context.command)}


_FIELDS = old_command({})

COMMAND = Command(
    "serverStatus",
    run,
    needs=on_cluster("serverStatus"),
    help="Show counters and states of the server.",
    fields=_FIELDS,
)
