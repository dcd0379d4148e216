"""A client's command on shards, and their answers as one."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.shard_calls import call
from tailrace.mongod.server.dispatch.context import Context

_NOT_FOR_SHARDS: Final = frozenset(
    {"$db", "$clusterTime", "$readPreference", "$client", "apiVersion", "apiStrict", "apiDeprecationErrors",
     "writeConcern", "collectionUUID"}
)  # fmt: skip
"""What the router has dealt with itself"""
_BEGINNING: Final = frozenset({"startTransaction", "readConcern"})
"""Of a transaction, which the shards have already"""
_OF_EVERY_REPLY: Final = frozenset({"$clusterTime", "operationTime"})


async def forward(
    context: Context, shard: str, changes: Mapping[str, Any] | None = None, *, database: str | None = None
) -> dict[str, Any]:
    """Run a client's command on a shard, with some fields changed; its reply's own fields and `ok`.

    Raises what the shard answers if that is an error.
    """
    left_out = _NOT_FOR_SHARDS if context.transaction is None else _NOT_FOR_SHARDS | _BEGINNING
    command = {name: value for name, value in context.command.items() if name not in left_out}
    reply = await call(
        cluster_of(context).server(shard),
        {**command, **(changes or {})},
        context.database if database is None else database,
        context.request.sequences,
    )
    return {name: value for name, value in reply.items() if name not in _OF_EVERY_REPLY}


async def forward_in_turn(
    context: Context, shards: Iterable[str], changes: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """The same on several shards; the replies by the name of the shard.

    One behind the other: what is wrong with a command shows on the first, before anything has changed.
    """
    return {shard: await forward(context, shard, changes) for shard in shards}


def raw_replies(context: Context, replies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A reply that shows those of the shards, by replica set and address."""
    shards = cluster_of(context).placement.shards
    hosts = {shard: shards[shard].host if shard in shards else shard for shard in replies}
    return {"raw": {hosts[shard]: dict(reply) for shard, reply in replies.items()}}
