"""`movePrimary`: move the primary of a database to another shard."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.primary_move import move_primary
from tailrace.mongod.cluster.placement.state import CONFIG_DATABASES
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.generic_arguments import check_database_name


async def run(context: RouterContext) -> Reply:
    """Move the database's untracked collections, unless the shard is already the primary."""
    arguments = context.arguments()
    database = arguments.text(context.name)
    to = arguments.text("to")
    arguments.finish()
    check_database_name(database)
    router = context.node
    if database in CONFIG_DATABASES:
        raise CommandError(ErrorCode.InvalidOptions, f"the primary of {database} is the config server")
    if router.placement.primary_of(database) is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"the database {database} does not exist")
    await move_primary(router.moves, database, to)
    return {"primary": router.placement.primary_of(database)}


COMMAND = Command(
    "movePrimary",
    run,
    needs=on_full_name("moveChunk"),
    help="Move the primary of a database to another shard.",
    aliases=("moveprimary",),
    admin_only=True,
    is_write=True,
)
