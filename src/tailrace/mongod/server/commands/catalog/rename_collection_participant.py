"""`_shardsvrRenameCollectionParticipant`: rename a shard's part of a collection.

One of the other shards logs the rename, for all of them.
"""

from typing import Any

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.rename import rename_collection
from tailrace.mongod.store.write_unit import WriteUnit


async def run(context: MemberContext) -> dict[str, Any]:
    """Streams do not show this rename."""
    arguments = context.arguments()
    source = namespace_argument(arguments, context.name)
    target = namespace_argument(arguments, "to")
    arguments.finish()

    def work(unit: WriteUnit) -> None:
        unit.moves_data = True
        rename_collection(unit, source, target, drop_target=True)

    await run_catalog_change(context, work)
    return {}


COMMAND = Command(
    "_shardsvrRenameCollectionParticipant",
    run,
    needs=on_cluster("internal"),
    help="Rename a shard's part of a collection; for routers.",
    admin_only=True,
    is_write=True,
)
