"""`$out` and `$merge` on a router: write the results into the stores of the shards that own them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.guards import held
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.writes.ownership import ShardOwnership
from tailrace.mongod.language.aggregation import MergeTarget, OutTarget
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.output import ResultWriter, identified, write_merge, write_out
from tailrace.mongod.store.store import Store

_SHARDED: Final = 28769
_NOT_FOUND_BY: Final = 51183


class ClusterResultWriter(ResultWriter):
    """Writes results to the shards that own them."""

    def __init__(self, placement: Placement, stores: Mapping[str, Store]) -> None:
        """``stores`` are those of the shards, by name."""
        self._placement = placement
        self._stores = stores

    async def write(
        self,
        context: Context,
        target: OutTarget | MergeTarget,
        documents: Iterator[bytes],
        *,
        bypasses_validation: bool,
    ) -> None:
        if isinstance(target, OutTarget):
            await self._replace(context, target, documents, bypasses_validation=bypasses_validation)
        else:
            await self._merge(context, target, documents, bypasses_validation=bypasses_validation)

    async def _replace(
        self, context: Context, target: OutTarget, documents: Iterator[bytes], *, bypasses_validation: bool
    ) -> None:
        ns = f"{target.database}.{target.collection}"
        placement = self._placement
        async with held(context, placement.changing(ns)):
            await placement.create_database(target.database)
            if placement.sharded(ns) is not None:
                raise CommandError(_SHARDED, f"{ns} is sharded, and $out cannot replace it; use $merge")
            shard = placement.shards_of(ns)[0]
            store = self._stores[shard]
            await write_out(context, store, target, documents, bypasses_validation=bypasses_validation)
            made = store.catalog.collection(ns)
            if ns in placement.collections and made is not None:
                await placement.place(ns, made.uuid, shard)

    async def _merge(
        self, context: Context, target: MergeTarget, documents: Iterator[bytes], *, bypasses_validation: bool
    ) -> None:
        ns = f"{target.database}.{target.collection}"
        placement = self._placement
        async with held(context, placement.using(ns)):
            await placement.create_database(target.database)
            sharded = placement.sharded(ns)
            if sharded is None:
                parts = {placement.shards_of(ns)[0]: documents}
            else:
                owned = _by_owner(sharded, target, documents)
                parts = {shard: iter(part) for shard, part in owned.items()}
            for shard, part in parts.items():
                store = self._stores[shard]
                with _with_ownership(context, ShardOwnership(placement.collections, shard)):
                    await write_merge(context, store, target, part, bypasses_validation=bypasses_validation)


@contextmanager
def _with_ownership(context: Context, ownership: ShardOwnership) -> Iterator[None]:
    """Set the ownership that the statements of a command on one shard are checked against."""
    client = context.client
    context.client = replace(client, ownership=ownership)
    try:
        yield
    finally:
        context.client = client


def _by_owner(
    sharded: TrackedCollection, target: MergeTarget, documents: Iterator[bytes]
) -> dict[str, list[bytes]]:
    """The results by the shard that owns, or will own, the document."""
    if set(target.on) != {"_id"} and not set(sharded.key.paths) <= set(target.on):
        raise CommandError(
            _NOT_FOUND_BY,
            f"'on' of a $merge into {sharded.ns} must name all fields of its shard key: "
            f"{', '.join(sharded.key.paths)}",
        )
    parts: dict[str, list[bytes]] = {}
    for raw in documents:
        document = encode(identified(target, decode(raw)))
        parts.setdefault(sharded.owner_of(document), []).append(document)
    return parts
