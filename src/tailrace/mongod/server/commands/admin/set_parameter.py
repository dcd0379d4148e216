"""`setParameter`: change server parameters while the server runs."""

from typing import Final

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import is_generic, old_command

_NO_CODE: Final = 0


async def run(context: Context) -> Reply:
    """Set the named parameters; all are checked before one is set."""
    release = context.node.release
    own = {name: value for name, value in context.command.items() if not is_generic(name, release)}
    own.pop(context.name)
    if not own:
        reason = "no option found to set, use help:true to see options "
        raise CommandError(_NO_CODE, reason)
    parameters = context.parameters
    for name in own:
        parameters.check_name(name)
    for name, value in own.items():
        parameters.check(name, value)
    was = [parameters.set(name, value) for name, value in own.items()]
    context.node.log.info("COMMAND", "Server parameters changed", context.client.name, parameters=list(own))
    return {"was": was[0]}


_FIELDS = old_command({})

COMMAND = Command(
    "setParameter",
    run,
    needs=on_cluster("setParameter"),
    help="Change server parameters.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
