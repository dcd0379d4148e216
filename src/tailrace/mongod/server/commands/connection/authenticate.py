"""`authenticate`: log in with a certificate of the client; there is no such way here."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY, TEXT


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    mechanism = arguments.text("mechanism")
    if mechanism != "MONGODB-X509":
        reason = f"Received authentication for mechanism {mechanism} which is not enabled"
        raise CommandError(ErrorCode.MechanismUnavailable, reason)
    raise CommandError(ErrorCode.AuthenticationFailed, "No verified subject name available from client")


_FIELDS = command({"authenticate": ANY, "mechanism": TEXT, "user": TEXT}, required=("mechanism",))

COMMAND = Command(
    "authenticate",
    run,
    needs=OPEN,
    help="Log in with a certificate.",
    fields=_FIELDS,
    has_no_session=True,
    same_on_router=True,
)
