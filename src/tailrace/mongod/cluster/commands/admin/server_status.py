"""`serverStatus` of a router: what it does for its clients; it has no data, no oplog and no replica set."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from bson import Int64

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.server.admin.status_sections import SECTIONS, head
from tailrace.mongod.server.commands.admin import server_status
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.context import Context

_OF_DATA: Final = frozenset({"changeStreamPreImages", "oplog", "pipeline", "repl", "storageEngine"})
_MAX_CHUNK_BYTES: Final = 128 << 20


async def run(context: Context) -> Reply:
    """All sections; a field that names one with 0 leaves it out."""
    command = context.command
    by_default = not command.get("none")
    sections = {name: describe for name, describe in SECTIONS.items() if name not in _OF_DATA}
    reply: dict[str, Any] = {**head(context.server), "process": "mongos"}
    for name, describe in sections.items():
        section = describe(context.server) if command.get(name, by_default) else None
        if section is not None:
            reply[name] = section
    for name, describe_cluster in _OF_THE_CLUSTER.items():
        section = describe_cluster(context) if command.get(name, by_default) else None
        if section is not None:
            reply[name] = section
    return reply


def _sharding(context: Context) -> dict[str, Any]:
    """The cluster behind the router."""
    config = cluster_of(context).config
    written = {"ts": to_timestamp(config.last_write_time()), "t": Int64(config.replication.term)}
    return {
        "configsvrConnectionString": f"{config.replication.set_name}/{config.member}",
        "lastSeenConfigServerOpTime": written,
        "maxChunkSizeInBytes": Int64(_MAX_CHUNK_BYTES),
    }


def _sharding_statistics(context: Context) -> dict[str, Any]:
    """How many shards, databases and collections it sends commands to."""
    placement = cluster_of(context).placement
    return {
        "numShards": len(placement.shards),
        "numDatabases": len(placement.databases),
        "numShardedCollections": sum(placement.sharded(ns) is not None for ns in placement.collections),
    }


def _pipeline(context: Context) -> dict[str, Any] | None:
    """What builds the history, as far as this process runs it."""
    status = cluster_of(context).pipeline_status
    return None if status is None else status()


_OF_THE_CLUSTER: Final[Mapping[str, Callable[[Context], dict[str, Any] | None]]] = {
    "pipeline": _pipeline,
    "sharding": _sharding,
    "shardingStatistics": _sharding_statistics,
}

COMMAND = replace(server_status.COMMAND.run_by(run), help="Show counters and states of the router.")
