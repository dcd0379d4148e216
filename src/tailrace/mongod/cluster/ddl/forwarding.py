"""Run a client's command on shards and combine the replies."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bson import Int64

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.dispatch.internal_calls import TRANSACTION_START_FIELDS, call

_ROUTER_FIELDS: Final = frozenset(
    {"$db", "$clusterTime", "$readPreference", "$client", "apiVersion", "apiStrict", "apiDeprecationErrors",
     "writeConcern", "collectionUUID"}
)  # fmt: skip
"""Handled by the router"""
_COMMON_REPLY_FIELDS: Final = frozenset({"$clusterTime", "operationTime"})


async def forward(
    context: RouterContext,
    shard: str,
    changes: Mapping[str, Any] | None = None,
    *,
    database: str | None = None,
) -> dict[str, Any]:
    """Run a client's command on a shard, with some fields changed; returns the reply's own fields and `ok`.

    Raises the shard's error if it replies with one.
    """
    left_out = _ROUTER_FIELDS if context.transaction is None else _ROUTER_FIELDS | TRANSACTION_START_FIELDS
    command = {name: value for name, value in context.command.items() if name not in left_out}
    reply = await call(
        context.node.member(shard),
        {**command, **(changes or {})},
        context.database if database is None else database,
        context.request.sequences,
    )
    return {name: value for name, value in reply.items() if name not in _COMMON_REPLY_FIELDS}


async def forward_in_turn(
    context: RouterContext, shards: Iterable[str], changes: Mapping[str, Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Run a client's command on one shard after the other; returns the replies by the name of the shard.

    Not in parallel: an invalid command fails on the first shard, before anything has changed.
    """
    return {shard: await forward(context, shard, changes) for shard in shards}


def raw_replies(context: RouterContext, replies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The field `raw` of a reply: the replies of the shards, by replica set and address."""
    shards = context.node.placement.shards
    hosts = {shard: shards[shard].host if shard in shards else shard for shard in replies}
    return {"raw": {hosts[shard]: dict(reply) for shard, reply in replies.items()}}


def sum_fields(replies: Iterable[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """The sums of some fields: an `Int64` unless a part is a float.

    >>> sum_fields([{"count": 1, "size": 2.5}, {"count": 2}], ["count", "size"])
    {'count': 3, 'size': 2.5}
    """
    rows = list(replies)
    return {name: _sum(row.get(name, 0) for row in rows) for name in names}


def sum_subfields(replies: Iterable[Mapping[str, Any]], field: str) -> dict[str, Any]:
    """The sums of all fields of an embedded document."""
    documents = [row.get(field, {}) for row in replies]
    names = dict.fromkeys(name for document in documents for name in document)
    return sum_fields(documents, names)


def _sum(values: Iterable[Any]) -> Any:
    total = sum(values)
    return total if isinstance(total, float) else Int64(total)
