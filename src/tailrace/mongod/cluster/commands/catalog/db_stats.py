"""`dbStats` on a router: the statistics of all shards, and their sums."""

from typing import Any, Final

from tailrace.mongod.cluster.ddl.forwarding import forward_in_turn, raw_replies, sum_fields
from tailrace.mongod.cluster.placement.state import CONFIG_DATABASES, CONFIG_SHARD
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import db_stats

_ADDED: Final = (
    "collections", "views", "objects", "dataSize", "storageSize", "indexes", "indexSize", "totalSize",
)  # fmt: skip
_OF_THE_DISK: Final = ("fsUsedSize", "fsTotalSize")


async def run(context: RouterContext) -> dict[str, Any]:
    """The statistics of a database; a collection counts once for each of its shards."""
    router = context.node
    is_config = context.database in CONFIG_DATABASES
    replies = await forward_in_turn(context, [CONFIG_SHARD] if is_config else router.shards)
    parts = list(replies.values())
    figures = sum_fields(parts, _ADDED)
    scale = parts[0]["scaleFactor"]
    objects = figures["objects"]
    figures["avgObjSize"] = figures["dataSize"] * scale / objects if objects else 0.0
    # All shards are on one disk.
    disk: dict[str, Any] = {name: part[name] for part in parts for name in _OF_THE_DISK if name in part}
    return {**raw_replies(context, replies), "db": context.database, **figures, "scaleFactor": scale, **disk}


COMMAND = db_stats.COMMAND.run_by(run)
