"""`saslContinue`: always fails, because no log-in has begun."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    arguments.integer("conversationId")
    arguments.value("payload")
    arguments.finish()
    raise CommandError(ErrorCode.ProtocolError, "No SASL session state found")


COMMAND = Command("saslContinue", run, help="Continue to log in.", same_on_router=True)
