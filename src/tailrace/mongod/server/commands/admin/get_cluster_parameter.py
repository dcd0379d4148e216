"""`getClusterParameter`: show cluster parameters."""

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.admin.cluster_parameters import NAMES
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import is_given, wrong_type


async def run(context: Context) -> Reply:
    """One by its name, several by an array of names, all with `*`."""
    arguments = context.arguments()
    wanted = arguments.given(context.name)
    arguments.ignore("omitInFTDC")
    arguments.finish()
    if wanted == "*":
        wanted = list(NAMES)
    elif is_string(wanted):
        wanted = [wanted]
    if not wanted:
        raise CommandError(ErrorCode.BadValue, "Must supply at least one cluster server parameter name")
    return {"clusterParameters": [context.node.cluster_parameters.describe(name) for name in wanted]}


def _check_names(context: Context) -> None:
    wanted = context.command[context.name]
    are_names = isinstance(wanted, list) and all(is_string(name) for name in wanted)
    if is_given(wanted) and not is_string(wanted) and not are_names:
        raise wrong_type(f"{context.name}.{context.name}", wanted, "[string, array]")


_FIELDS = old_command({})

COMMAND = Command(
    "getClusterParameter",
    run,
    needs=on_cluster("getClusterParameter"),
    help="Show cluster parameters.",
    fields=_FIELDS,
    check_first=_check_names,
    admin_only=True,
    same_on_router=True,
)
