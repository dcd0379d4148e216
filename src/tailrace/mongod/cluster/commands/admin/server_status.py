"""`serverStatus` on a router, which has no sections on data, oplog and replica set."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.admin.status_sections import OF_MEMBERS, SECTIONS, describe, head
from tailrace.mongod.server.commands.admin import server_status
from tailrace.mongod.server.dispatch.command import Reply

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router

_MAX_CHUNK_BYTES: Final = 128 << 20


async def run(context: RouterContext) -> Reply:
    return {
        **head(context.node),
        "process": "mongos",
        **describe(context.node, _SECTIONS, context.command),
    }


def _sharding(router: "Router") -> dict[str, Any]:
    config = router.config
    written = {"ts": to_timestamp(config.last_write_time()), "t": Int64(config.replication.term)}
    return {
        "configsvrConnectionString": f"{config.replication.set_name}/{config.address}",
        "lastSeenConfigServerOpTime": written,
        "maxChunkSizeInBytes": Int64(_MAX_CHUNK_BYTES),
    }


def _sharding_statistics(router: "Router") -> dict[str, Any]:
    """The numbers of shards, databases and collections."""
    placement = router.placement
    return {
        "numShards": len(placement.shards),
        "numDatabases": len(placement.databases),
        "numShardedCollections": sum(placement.sharded(ns) is not None for ns in placement.collections),
    }


_SECTIONS: Final = {
    **{name: section for name, section in SECTIONS.items() if name not in OF_MEMBERS},
    "pipeline": SECTIONS["pipeline"],
    "sharding": _sharding,
    "shardingStatistics": _sharding_statistics,
}

COMMAND = replace(server_status.COMMAND.run_by(run), help="Show counters and states of the router.")
