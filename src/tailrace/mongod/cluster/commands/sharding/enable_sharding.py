"""`enableSharding`: create a database on a shard that the client or the cluster chooses."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.cluster.ddl.guards import shared_placement
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.generic_arguments import check_database_name


async def run(context: RouterContext) -> Reply:
    """Create the database; raises NamespaceExists (48) if it is on another shard."""
    arguments = context.arguments()
    name = arguments.text(context.name)
    shard = arguments.text("primaryShard", None)
    arguments.finish()
    check_database_name(name)
    if name in INTERNAL_DATABASES:
        raise CommandError(ErrorCode.InvalidOptions, f"collections of the database {name} cannot be sharded")
    placement = context.node.placement
    wanted = None if shard is None else placement.shard(shard).name
    async with shared_placement(context, name):
        primary = await placement.create_database(name, wanted)
    if wanted is not None and primary != wanted:
        raise CommandError(
            ErrorCode.NamespaceExists,
            f"the database {name} already exists, with {primary} as its primary shard; "
            "movePrimary changes it",
        )
    return {}


COMMAND = Command(
    "enableSharding",
    run,
    needs=on_full_name("enableSharding"),
    help="Create a database, optionally on a given shard.",
    aliases=("enablesharding",),
    admin_only=True,
    is_write=True,
)
