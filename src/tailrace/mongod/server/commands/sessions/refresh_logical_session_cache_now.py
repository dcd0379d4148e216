"""`refreshLogicalSessionCacheNow`: has no effect, because sessions are never older than their last use."""

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(_context: Context) -> Reply:
    return {}


COMMAND = Command(
    "refreshLogicalSessionCacheNow",
    run,
    needs=LOGGED_IN,
    help="Store the times at which sessions were used.",
    is_test_command=True,
    same_on_router=True,
)
