"""`serverStatus`: counters and states of the whole server."""

from typing import Any

from tailrace.mongod.server.admin.status_sections import ON_REQUEST, SECTIONS, head
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """All sections; a field that names one with 0 leaves it out, one with 1 asks for it."""
    command = context.command
    by_default = not command.get("none")
    reply: dict[str, Any] = head(context.server)
    for name, describe in SECTIONS.items():
        if command.get(name, by_default and name not in ON_REQUEST):
            section = describe(context.server)
            if section is not None:
                reply[name] = section
    return reply


COMMAND = Command("serverStatus", run, help="Show counters and states of the server.")
