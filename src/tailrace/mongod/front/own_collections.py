"""The collections of the server itself: the positions of consumer groups, beside its users and roles.

They are in the database `tailrace` of its data directory. A database of this name at the source can be
watched, but not read here.
"""

from typing import TYPE_CHECKING, Final

from tailrace.mongod.server.commands import COMMANDS
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.internal_calls import call

if TYPE_CHECKING:
    from tailrace.mongod.front.commands import FrontContext

DATABASE: Final = "tailrace"
_READS: Final = frozenset({"count", "distinct", "find", "listCollections", "listIndexes"})
_WRITES: Final = frozenset(
    {"create", "createIndexes", "delete", "drop", "dropDatabase", "findAndModify", "insert", "update"}
)
COMMANDS_ON_THEM: Final = _READS | _WRITES
_OF_THE_REQUEST: Final = ("$db", "$clusterTime", "$readPreference")
_OF_THE_REPLY: Final = ("$clusterTime", "operationTime")


async def run_own(context: "FrontContext") -> Reply:
    """Run a command on a collection of this server."""
    name = context.entry.name
    if name in _READS:
        context.entry = COMMANDS[name]
        if context.entry.fields is not None:
            context.entry.fields.check(context.name, context.command, context.node.release)
        return await context.entry.run(context)
    # The node that clients connect to has the clock of the source; the other one writes.
    command = {field: value for field, value in context.command.items() if field not in _OF_THE_REQUEST}
    sequences = context.request.sequences
    reply = await call(context.node.keeper, command, context.database, sequences, part_of=context)
    return {field: value for field, value in reply.items() if field not in _OF_THE_REPLY}
