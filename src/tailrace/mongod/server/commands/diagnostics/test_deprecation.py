"""`testDeprecation`: a command that is deprecated in version 1 of the Stable API, for tests of drivers."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.api_versions import API_FIELDS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    command = context.command
    if command.get("apiDeprecationErrors"):
        reason = "Provided apiDeprecationErrors:true, but the command testDeprecation is deprecated"
        raise CommandError(ErrorCode.APIDeprecationError, f"{reason} in API Version 1")
    return {name: value for name, value in command.items() if name in API_FIELDS}


COMMAND = Command(
    "testDeprecation", run, needs=OPEN, help="Do nothing.", is_test_command=True, same_on_router=True
)
