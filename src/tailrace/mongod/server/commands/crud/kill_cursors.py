"""`killCursors`: end cursors."""

from bson import Int64

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """Cursors of other namespaces count as not found."""
    name = context.collection_name()
    arguments = context.arguments()
    ids = arguments.array("cursors")
    arguments.finish()
    if not ids:
        raise CommandError(ErrorCode.BadValue, "Must specify at least one cursor id in the 'cursors' array")
    for position, cursor_id in enumerate(ids):
        if isinstance(cursor_id, bool) or not isinstance(cursor_id, int):
            reason = (
                f"BSON field 'killCursors.cursors.{position}' is the wrong type '{type_name(cursor_id)}', "
                "expected type 'long'"
            )
            raise CommandError(ErrorCode.TypeMismatch, reason)
    cursors = context.node.cursors
    killed: list[Int64] = []
    not_found: list[Int64] = []
    for cursor_id in ids:
        entry = cursors.get(cursor_id)
        is_here = entry is not None and entry.cursor.ns == f"{context.database}.{name}"
        (killed if is_here and cursors.kill(cursor_id) else not_found).append(Int64(cursor_id))
    return {"cursorsKilled": killed, "cursorsNotFound": not_found, "cursorsAlive": [], "cursorsUnknown": []}


COMMAND = Command("killCursors", run, help="End cursors.", in_transaction=True, same_on_router=True)
