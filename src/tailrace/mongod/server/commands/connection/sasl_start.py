"""`saslStart`: begin to log in."""

from tailrace.mongod.server.access import login
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.access.scram import ScramError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY, LOOSE_FLAG, OBJECT, TEXT


async def run(context: Context) -> Reply:
    context.arguments().finish()
    try:
        return login.begin(context, context.command, context.database)
    except ScramError as error:
        raise await login.refuse(context, error) from None


_FIELDS = command(
    {"saslStart": ANY, "mechanism": TEXT, "payload": ANY, "autoAuthorize": LOOSE_FLAG, "options": OBJECT},
    required=("mechanism", "payload"),
)

COMMAND = Command(
    "saslStart",
    run,
    needs=OPEN,
    help="Begin to log in.",
    fields=_FIELDS,
    has_no_session=True,
    same_on_router=True,
)
