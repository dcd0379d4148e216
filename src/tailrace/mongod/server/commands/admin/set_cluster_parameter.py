"""`setClusterParameter`: change a stored setting of the whole deployment."""

from collections.abc import Mapping

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context, MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import OBJECT, is_given, wrong_type


async def run(context: MemberContext) -> Reply:
    arguments = context.arguments()
    given = arguments.document(context.name)
    arguments.finish()
    if len(given) != 1:
        reason = f"setClusterParameter sets exactly one parameter, not {len(given)}"
        raise CommandError(ErrorCode.IllegalOperation, reason)
    ((name, value),) = given.items()
    await context.node.cluster_parameters.set(context.node.store, name, value)
    context.node.log.info("COMMAND", "Cluster parameter changed", context.client.name, parameter=name)
    return {}


def _check_first(context: Context) -> None:
    given = context.command[context.name]
    if is_given(given) and not isinstance(given, Mapping):
        raise wrong_type(f"{context.name}.{context.name}", given, "object")


_FIELDS = old_command({"setClusterParameter": OBJECT}, required=("setClusterParameter",))

COMMAND = Command(
    "setClusterParameter",
    run,
    needs=on_cluster("setClusterParameter"),
    help="Change a cluster parameter.",
    fields=_FIELDS,
    check_first=_check_first,
    admin_only=True,
    is_write=True,
)
