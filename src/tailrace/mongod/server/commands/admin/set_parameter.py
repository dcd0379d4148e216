"""`setParameter`: change server parameters while the server runs."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import GENERIC_ARGUMENTS
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Set the named parameters; all are checked before one is set."""
    own = {name: value for name, value in context.command.items() if name not in GENERIC_ARGUMENTS}
    own.pop(context.name)
    if not own:
        reason = "no option found to set, use help:true to see options "
        raise CommandError(ErrorCode.InvalidOptions, reason)
    parameters = context.parameters
    for name, value in own.items():
        parameters.check(name, value)
    was = [parameters.set(name, value) for name, value in own.items()]
    context.node.log.info("COMMAND", "Server parameters changed", context.client.name, parameters=list(own))
    return {"was": was[0]}


COMMAND = Command("setParameter", run, help="Change server parameters.", admin_only=True, same_on_router=True)
