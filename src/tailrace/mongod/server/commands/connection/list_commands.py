"""`listCommands`: list all commands with their help."""

from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.api_versions import API_VERSION_1
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command


async def run(context: Context) -> Reply:
    context.arguments().finish()
    table = context.node.commands
    enabled = context.parameters["enableTestCommands"]
    own = {command.name: command for command in table.values() if enabled or not command.is_test_command}
    return {"commands": {name: _described(command) for name, command in sorted(own.items())}}


def _described(command: Command) -> dict[str, object]:
    return {
        "help": command.help,
        "requiresAuth": False,
        "secondaryOk": not command.is_write,
        "adminOnly": command.admin_only,
        "apiVersions": ["1"] if command.name in API_VERSION_1 else [],
        "deprecatedApiVersions": [],
    }


_FIELDS = old_command({})

COMMAND = Command(
    "listCommands",
    run,
    needs=OPEN,
    help="List all commands.",
    fields=_FIELDS,
    has_no_session=True,
    same_on_router=True,
)
