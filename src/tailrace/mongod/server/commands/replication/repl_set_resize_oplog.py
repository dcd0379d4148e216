"""`replSetResizeOplog`: change the size of the oplog."""

from typing import Final

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext

_OUT_OF_RANGE: Final = 51024
_MEGABYTES: Final = (990.0, 1024.0**3)
_HOURS: Final = (0.0, float("inf"))


async def run(context: MemberContext) -> Reply:
    """The size in megabytes, until the next start. Entries are removed by size alone, never by age."""
    arguments = context.arguments()
    size = _bounded(arguments, "size", _MEGABYTES)
    _bounded(arguments, "minRetentionHours", _HOURS)
    if size is not None:
        context.node.store.oplog_size = int(size * 1024 * 1024)
    return {}


def _bounded(arguments: Arguments, field: str, bounds: tuple[float, float]) -> float | None:
    number = arguments.number(field, None)
    if number is None or bounds[0] <= number <= bounds[1]:
        return number
    sign, bound = (">=", bounds[0]) if number < bounds[0] else ("<=", bounds[1])
    reason = f"BSON field '{field}' value must be {sign} {bound:g}, actual value '{number:g}'"
    raise CommandError(_OUT_OF_RANGE, reason)


COMMAND = Command(
    "replSetResizeOplog",
    run,
    needs=on_cluster("replSetResizeOplog"),
    help="Change the size of the oplog.",
    admin_only=True,
)
