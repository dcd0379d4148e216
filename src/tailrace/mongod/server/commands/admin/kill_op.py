"""`killOp`: end an operation."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.privileges import CLUSTER
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import GIVEN_NUMBER
from tailrace.query.expressions.numbers.number_types import integral_value


async def run(context: Context) -> Reply:
    """Interrupt the operation if it is still running; the reply is the same if it is not."""
    arguments = context.arguments()
    operation_id = integral_value(arguments.value("op"))
    if operation_id is None or not -(2**63) <= operation_id < 2**63:
        reason = 'Expected field "op" to have a value exactly representable as a 64-bit integer'
        raise CommandError(ErrorCode.BadValue, reason)
    if not -(2**31) <= operation_id < 2**31:
        raise CommandError(26823, f"invalid op : {operation_id}. Op ID cannot be represented with 32 bits")
    target = context.node.operations.get(operation_id)
    if target is not None:
        target.interrupt(CommandError(ErrorCode.Interrupted, "operation was interrupted"))
    context.node.log.info("COMMAND", "Operation killed", context.client.name, op=operation_id)
    return {"info": "attempting to kill op"}


def _needs(context: Context) -> Rights:
    """Nothing for an operation of the same user."""
    number = context.command.get("op")
    target = context.node.operations.get(number) if isinstance(number, int) else None
    own = context.client.user
    other = None if target is None else target.client.user
    if own is not None and other is not None and own.principal == other.principal:
        return ()
    return (right(CLUSTER, "killop"),)


_FIELDS = old_command({"op": GIVEN_NUMBER}, required=("op",), missing_code=ErrorCode.NoSuchKey)

COMMAND = Command("killOp", run, needs=_needs, help="End an operation.", fields=_FIELDS, admin_only=True)
