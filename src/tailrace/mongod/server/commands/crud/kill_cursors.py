"""`killCursors`: end cursors."""

from bson import Int64

from tailrace.mongod.server.access.needs import Rights, either, right
from tailrace.mongod.server.access.privileges import CLUSTER, namespace
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import COLLECTION, LONG, array_of, is_given


async def run(context: Context) -> Reply:
    """The collection's name has no meaning."""
    context.collection_name()
    arguments = context.arguments()
    ids = [cursor_id for cursor_id in arguments.array("cursors") if is_given(cursor_id)]
    cursors = context.node.cursors
    killed: list[Int64] = []
    not_found: list[Int64] = []
    for cursor_id in ids:
        is_here = cursors.get(cursor_id) is not None
        (killed if is_here and cursors.kill(cursor_id) else not_found).append(Int64(cursor_id))
    return {"cursorsKilled": killed, "cursorsNotFound": not_found, "cursorsAlive": [], "cursorsUnknown": []}


def _needs(context: Context) -> Rights:
    """Nothing for the own cursors."""
    ids, own = context.command.get("cursors"), context.client.user
    for cursor_id in ids if isinstance(ids, list) else ():
        found = context.node.cursors.get(cursor_id)
        if found is None or (own and found.owner and found.owner.principal == own.principal):
            continue
        database, _, collection = found.cursor.ns.partition(".")
        yield either(right(CLUSTER, "killAnyCursor"), right(namespace(database, collection), "killAnyCursor"))


_FIELDS = command({"killCursors": COLLECTION, "cursors": array_of(LONG)}, required=("cursors",))

COMMAND = Command(
    "killCursors",
    run,
    needs=_needs,
    help="End cursors.",
    fields=_FIELDS,
    in_transaction=True,
    same_on_router=True,
)
