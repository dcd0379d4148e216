"""`echo`: return the command."""

from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    return {"echo": context.command}


COMMAND = Command(
    "echo", run, needs=OPEN, help="Return the command.", is_test_command=True, same_on_router=True
)
