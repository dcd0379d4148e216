"""`testVersion2`: a command that is not in version 1 of the Stable API, for tests of drivers."""

from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.api_versions import API_FIELDS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    return {name: value for name, value in context.command.items() if name in API_FIELDS}


COMMAND = Command(
    "testVersion2", run, needs=OPEN, help="Do nothing.", is_test_command=True, same_on_router=True
)
