"""`configureFailPoint`: set a fail point."""

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.arguments import NOT_GIVEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.emulation.member_fail_points import set_fail_point


async def run(context: Context) -> Reply:
    """Set the mode of one fail point; the reply has how often it was entered so far."""
    arguments = context.arguments()
    name = arguments.value(context.name)
    mode = arguments.given("mode")
    data = arguments.given("data")
    context.node.fail_points.get(name)
    if mode is NOT_GIVEN:
        raise CommandError(ErrorCode.IllegalOperation, "the field 'mode' is missing")
    if data is NOT_GIVEN or isinstance(data, list):
        data = {}
    if not isinstance(data, dict):
        reason = f"the field 'data' must be an object, not {type_name(data)}"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    point = set_fail_point(context.node, name, mode, data)
    context.node.log.info("COMMAND", "Fail point configured", context.client.name, name=name, mode=mode)
    return {"count": point.times_entered}


_FIELDS = old_command({})

COMMAND = Command(
    "configureFailPoint",
    run,
    needs=on_cluster("setParameter"),
    help="Set a fail point.",
    fields=_FIELDS,
    has_no_session=True,
    admin_only=True,
    is_test_command=True,
    same_on_router=True,
)
