"""`authenticate`: log in with the certificate of the client."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access import login
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.access.scram import ScramError
from tailrace.mongod.server.access.x509 import MECHANISM, log_in_by_certificate
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY, TEXT


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    mechanism, user = arguments.text("mechanism"), arguments.text("user", None)
    if mechanism != MECHANISM:
        reason = f"Received authentication for mechanism {mechanism} which is not enabled"
        raise CommandError(ErrorCode.MechanismUnavailable, reason)
    try:
        return log_in_by_certificate(context, user, context.database)
    except ScramError as error:
        raise await login.refuse(context, error) from None
    except CommandError as error:
        audit = context.node.options.audit
        if audit is not None:
            name = context.client.certificate or user
            principal = None if name is None else Principal(name, context.database)
            audit.login(context, principal, mechanism, error.code)
        raise


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
