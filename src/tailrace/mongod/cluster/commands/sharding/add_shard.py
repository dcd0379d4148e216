"""`addShard`: add a new shard, or one that was removed."""

import re
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def run(context: RouterContext) -> Reply:
    """Start a shard in this process, or add one again that is still running in it.

    `addShard: "name"` starts a shard of that name, `addShard: ""` one with the next free name. The connection
    string of a removed shard, as listShards showed it, adds that one again.
    """
    arguments = context.arguments()
    asked = arguments.text(context.name)
    wanted = arguments.text("name", None)
    arguments.ignore("maxSize")
    arguments.finish()
    router = context.node
    replica_set, _, members = asked.partition("/")
    name = replica_set or wanted or router.servers.free_name()
    if wanted is not None and wanted != name:
        raise CommandError(
            ErrorCode.IllegalOperation, f"a shard must have the name of its replica set, {name}, not {wanted}"
        )
    if not _NAME.fullmatch(name) or name == CONFIG_SHARD:
        raise CommandError(
            ErrorCode.BadValue,
            f"'{name}' cannot be the name of a shard; letters, digits, hyphens and underscores can",
        )
    known = router.placement.shards.get(name)
    if known is None:
        await router.moves.run(lambda: router.servers.add(name, members))
    elif members and known.host != asked:
        raise CommandError(
            ErrorCode.IllegalOperation, f"a shard {name} already exists, with the members {known.host}"
        )
    return {"shardAdded": name}


COMMAND = Command(
    "addShard",
    run,
    needs=on_cluster("addShard"),
    help="Add a shard to the cluster.",
    aliases=("addshard",),
    admin_only=True,
    is_write=True,
)
