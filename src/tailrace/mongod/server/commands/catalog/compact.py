"""`compact`: has no effect.

Pages without documents are reused by the next writes to any collection, so there is no space to free.
"""

from typing import Any

from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import OLD_COLLECTION
from tailrace.mongod.store.ddl.lookup import existing_collection


async def run(context: MemberContext) -> dict[str, Any]:
    """Report zero freed bytes for an existing collection."""
    name = context.collection_name()
    arguments = context.arguments()
    arguments.ignore("freeSpaceTargetMB", "dryRun")
    arguments.finish()
    existing_collection(context.node.store.catalog, context.database, name)
    return {"bytesFreed": 0}


_FIELDS = old_command({"compact": OLD_COLLECTION})

COMMAND = Command(
    "compact",
    run,
    needs=on_collection("compact"),
    help="Free space of a collection; has no effect.",
    fields=_FIELDS,
    is_write=True,
)
