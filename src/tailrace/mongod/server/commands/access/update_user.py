"""`updateUser`: always fails, because there are no users."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(_context: Context) -> Reply:
    raise CommandError(ErrorCode.CommandNotSupported, "this server has no users")


COMMAND = Command("updateUser", run, help="Update a user; there are none.", same_on_router=True)
