"""`driverOIDTest`: show an ObjectId as text."""

from bson import ObjectId

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    value = context.command[context.name]
    if not isinstance(value, ObjectId):
        raise CommandError(0, "not oid")
    return {"oid": value, "str": str(value)}


COMMAND = Command(
    "driverOIDTest", run, needs=LOGGED_IN, help="Show an ObjectId as text.", same_on_router=True
)
