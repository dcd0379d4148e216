"""`rotateCertificates`: read the certificates again; new connections use them."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import ANY, TEXT


async def run(context: Context) -> Reply:
    """Use the new files, or none of them if one cannot be used."""
    arguments = context.arguments()
    message = arguments.text("message", None)
    arguments.finish()
    node = context.node
    if node.options.tls is None:
        reason = "this server does not use TLS; start it with --tls-mode"
        raise CommandError(ErrorCode.InvalidSSLConfiguration, reason)
    try:
        node.options.tls.reload()
    except UsageError as error:
        raise CommandError(ErrorCode.InvalidSSLConfiguration, str(error)) from None
    node.log.info("NETWORK", "Read the certificates again", context.client.name, message=message)
    return {}


_FIELDS = command({"rotateCertificates": ANY, "message": TEXT})

COMMAND = Command(
    "rotateCertificates",
    run,
    needs=on_cluster("rotateCertificates"),
    help="Read the certificates again.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
