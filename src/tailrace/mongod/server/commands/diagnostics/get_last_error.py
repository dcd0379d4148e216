"""`getLastError`: not supported since 5.1; replies to writes have their errors."""

from typing import Final

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context

_NOT_SUPPORTED: Final = 5739000


async def run(_context: Context) -> Reply:
    raise CommandError(_NOT_SUPPORTED, "getLastError command is not supported")


COMMAND = Command(
    "getLastError", run, needs=OPEN, help="Not supported.", aliases=("getlasterror",), same_on_router=True
)
