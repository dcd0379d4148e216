"""`collStats` on a router: the statistics of all shards that have the collection, and their sums."""

from typing import Any, Final

from tailrace.mongod.cluster.ddl.collection_shards import find_collection_shards
from tailrace.mongod.cluster.ddl.forwarding import forward_in_turn, sum_fields, sum_subfields
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import coll_stats

_ADDED: Final = ("size", "count", "numOrphanDocs", "storageSize", "totalIndexSize", "totalSize")
_THE_SAME: Final = ("capped", "clustered", "timeseries", "max", "maxSize", "nindexes", "scaleFactor")


async def run(context: RouterContext) -> dict[str, Any]:
    """The statistics of a collection; zeros if it does not exist."""
    name = context.collection_name()
    ns = f"{context.database}.{name}"
    router = context.node
    placement = router.placement
    primary = placement.primary_of(context.database)
    # For a collection that does not exist, the primary or any shard replies with zeros.
    shards = find_collection_shards(router.placement, router.stores, ns).owners or (
        primary or next(iter(router.shards)),
    )
    replies = await forward_in_turn(context, shards)
    parts = list(replies.values())
    figures: dict[str, Any] = {field: parts[0][field] for field in _THE_SAME if field in parts[0]}
    figures |= sum_fields(parts, _ADDED)
    if figures["count"]:
        figures["avgObjSize"] = figures["size"] * parts[0]["scaleFactor"] // figures["count"]
    sharded = placement.sharded(ns)
    shown: dict[str, Any] = {"sharded": sharded is not None, "ns": ns}
    if sharded is None:
        shown["primary"] = shards[0]
    else:
        shown["nchunks"] = len(sharded.chunks)
    return {**shown, **figures, "indexSizes": sum_subfields(parts, "indexSizes"), "shards": replies}


COMMAND = coll_stats.COMMAND.run_by(run)
