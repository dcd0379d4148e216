"""`getLog`: show the newest lines of the log."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import TEXT


async def run(context: Context) -> Reply:
    """The lines of a log by its name; `*` lists the names."""
    arguments = context.arguments()
    name = arguments.text(context.name)
    arguments.finish()
    log = context.node.log
    if name == "*":
        return {"names": ["global", "startupWarnings"]}
    if name == "global":
        return _lines(log.total_lines, log.newest())
    if name == "startupWarnings":
        return _lines(len(log.startup_warnings()), log.startup_warnings())
    raise CommandError(ErrorCode.OperationFailed, f"No log named '{name}'")


def _lines(total: int, lines: list[str]) -> dict[str, Any]:
    return {"totalLinesWritten": total, "log": lines}


_FIELDS = command({"getLog": TEXT}, required=("getLog",), late=True)

COMMAND = Command(
    "getLog",
    run,
    needs=on_cluster("getLog"),
    help="Show the newest lines of the log.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
