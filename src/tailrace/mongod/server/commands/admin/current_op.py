"""`currentOp`: show running operations."""

from typing import Final

from tailrace.mongod.server.access.needs import Rights, right
from tailrace.mongod.server.access.privileges import CLUSTER
from tailrace.mongod.server.admin.current_operations import all_operations, own_only
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import is_generic, old_command
from tailrace.query.match import compile_match

_OPTIONS: Final = frozenset({"$all", "$ownOps", "$local", "$truncateOps"})


async def run(context: Context) -> Reply:
    """Running operations; `$all` adds idle connections and cursors, other fields are a filter."""
    command = context.command
    everything = bool(command.get("$all"))
    filter_fields = {
        name: value
        for name, value in command.items()
        if name != context.name and name not in _OPTIONS and not is_generic(name, context.node.release)
    }
    matches = compile_match(filter_fields)
    operations = all_operations(
        context.node,
        is_local=bool(command.get("$local")),
        owner=own_only(context, is_wanted=bool(command.get("$ownOps"))),
        truncated=bool(command.get("$truncateOps", True)),
        idle_connections=everything,
        idle_cursors=everything,
        idle_sessions=True,
    )
    return {"inprog": [operation for operation in operations if matches(operation)]}


def _needs(context: Context) -> Rights:
    """Nothing for the own operations."""
    return () if context.command.get("$ownOps") else (right(CLUSTER, "inprog"),)


_FIELDS = old_command({})

COMMAND = Command(
    "currentOp",
    run,
    needs=_needs,
    help="Show running operations.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
