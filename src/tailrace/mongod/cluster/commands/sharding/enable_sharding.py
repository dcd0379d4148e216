"""`enableSharding`: a database, on a shard of the client's choice or of the cluster's."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.cluster.ddl.guards import shared_placement
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.generic_arguments import check_database_name


async def run(context: RouterContext) -> Reply:
    """Make sure that the database is there, and where it has to be."""
    arguments = context.arguments()
    name = arguments.text(context.name)
    shard = arguments.text("primaryShard", None)
    arguments.finish()
    check_database_name(name)
    if name in INTERNAL_DATABASES:
        raise CommandError(ErrorCode.InvalidOptions, f"collections of the database {name} cannot be sharded")
    placement = context.node.cluster.placement
    wanted = None if shard is None else placement.shard(shard).name
    async with shared_placement(context, name):
        primary = await placement.create_database(name, wanted)
    if wanted is not None and primary != wanted:
        raise CommandError(
            ErrorCode.NamespaceExists,
            f"the database {name} is there already, with {primary} as its primary shard; "
            "movePrimary gives it another one",
        )
    return {}


COMMAND = Command(
    "enableSharding",
    run,
    help="Makes a database, if it is not there, on a shard of the client's choice.",
    aliases=("enablesharding",),
    admin_only=True,
    is_write=True,
)
