"""`top`: show how often and how long each collection was used."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    return {"totals": {"note": "all times in microseconds", **context.node.usage.to_document()}}


COMMAND = Command(
    "top",
    run,
    needs=on_cluster("top"),
    help="Show how often and how long collections were used.",
    admin_only=True,
)
