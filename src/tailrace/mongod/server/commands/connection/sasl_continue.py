"""`saslContinue`: continue to log in."""

from tailrace.mongod.server.access import login
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.access.scram import ScramError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY, NUMBER


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    number = arguments.integer("conversationId")
    arguments.finish()
    try:
        return login.go_on(context, number, context.command["payload"])
    except ScramError as error:
        raise await login.refuse(context, error) from None


_FIELDS = command(
    {"saslContinue": ANY, "conversationId": NUMBER, "payload": ANY}, required=("conversationId", "payload")
)

COMMAND = Command(
    "saslContinue",
    run,
    needs=OPEN,
    help="Continue to log in.",
    fields=_FIELDS,
    has_no_session=True,
    same_on_router=True,
)
