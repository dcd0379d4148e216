"""`addShard`: a shard joins the cluster, a new one or one that was removed."""

import re
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.dispatch.command import Command, Reply

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


async def run(context: RouterContext) -> Reply:
    """Start a shard in this process, or take one in again that still runs in it.

    `addShard: "name"` starts one of that name, `addShard: ""` one of the next free name. The connection
    string of a shard that was removed, as listShards showed it, takes that one in again.
    """
    arguments = context.arguments()
    asked = arguments.text(context.name)
    wanted = arguments.text("name", None)
    arguments.ignore("maxSize")
    arguments.finish()
    cluster = context.node.cluster
    replica_set, _, members = asked.partition("/")
    name = replica_set or wanted or cluster.free_name()
    if wanted is not None and wanted != name:
        raise CommandError(
            ErrorCode.IllegalOperation, f"a shard has the name of its replica set here, {name}, not {wanted}"
        )
    if not _NAME.fullmatch(name) or name == CONFIG_SHARD:
        raise CommandError(
            ErrorCode.BadValue,
            f"'{name}' cannot be the name of a shard; letters, digits, hyphens and underscores can",
        )
    known = cluster.placement.shards.get(name)
    if known is None:
        await cluster.moves.run(lambda: cluster.take_in(name, members))
    elif members and known.host != asked:
        raise CommandError(
            ErrorCode.IllegalOperation, f"there is a shard {name} already, and its members are {known.host}"
        )
    return {"shardAdded": name}


COMMAND = Command(
    "addShard",
    run,
    help="Adds a shard to the cluster.",
    aliases=("addshard",),
    admin_only=True,
    is_write=True,
)
