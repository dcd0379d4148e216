"""Decide which expired documents a shard may delete: those that it owns, while they are not moved."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.reads.cluster_catalog import RESHARDING
from tailrace.mongod.server.admin.expiry import Claim


def expiry_claim(placement: Placement, shard: str) -> Claim:
    """The claim of one shard. A document that another shard owns is deleted there."""

    @asynccontextmanager
    async def claim(ns: str) -> AsyncIterator[Callable[[bytes], bool]]:
        async with placement.using(ns):
            yield _owns(placement, shard, ns)

    return claim


def _owns(placement: Placement, shard: str, ns: str) -> Callable[[bytes], bool]:
    is_temporary = ns.partition(".")[2].startswith(RESHARDING)
    if is_temporary or shard not in placement.shards_of(ns):
        return lambda _document: False
    sharded = placement.sharded(ns)
    if sharded is None or not sharded.may_have_orphans:
        return lambda _document: True
    return lambda document: sharded.owns(shard, document)
