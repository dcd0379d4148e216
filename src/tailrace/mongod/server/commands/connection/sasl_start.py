"""`saslStart`: always fails, because there are no users."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Fail as for an unknown user."""
    context.node.log.info("ACCESS", "Authentication refused: there are no users", context.client.name)
    reason = "Authentication failed: this server has no users; connect without a user name"
    raise CommandError(ErrorCode.AuthenticationFailed, reason)


COMMAND = Command("saslStart", run, help="Begin to log in.", aliases=("authenticate",), same_on_router=True)
