"""`logRotate`: open the audit log again; the log of the server is a stream, which is only marked."""

from typing import Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import Kind
from tailrace.query.expressions.operands import is_number

_SERVER_LOG: Final = "server"
_AUDIT_LOG: Final = "audit"


async def run(context: Context) -> Reply:
    """Write a line to the log, which marks the moment."""
    arguments = context.arguments()
    which = arguments.value("logRotate")
    audit = context.node.options.audit
    if is_string(which) and which != _SERVER_LOG and (which != _AUDIT_LOG or audit is None):
        raise CommandError(ErrorCode.NoSuchKey, f"there is no log '{which}' to rotate")
    comment = arguments.value("comment", None)
    arguments.finish()
    if audit is not None and which != _SERVER_LOG:
        try:
            audit.reopen()
        except UsageError as error:
            raise CommandError(ErrorCode.FileNotOpen, str(error)) from None
    context.node.log.info("CONTROL", "Log rotation requested", context.client.name, comment=comment)
    return {}


_FIELDS = command(
    {
        "logRotate": Kind(
            lambda value: isinstance(value, bool) or is_number(value) or is_string(value),
            "[bool, string]",
            null_code=ErrorCode.TypeMismatch,
        )
    }
)

COMMAND = Command(
    "logRotate",
    run,
    needs=on_cluster("logRotate"),
    help="Mark the log.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
