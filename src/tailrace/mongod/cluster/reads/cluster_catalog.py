"""The collections of a whole cluster, as a router shows them.

A sharded collection is one collection; `admin` and `config` are the config server's. The numbers that
identify collections and indexes within a store differ between stores, so the cluster assigns its own, which
do not change when a collection is moved.

A tracked collection is the one with the UUID that the placement lists, whatever its name on a shard.
Resharding therefore takes effect when the placement changes, for all shards at once.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.mongod.cluster.placement.state import CONFIG_DATABASES, CONFIG_SHARD, PlacementState
from tailrace.mongod.store.catalog import Catalog, Collection, Index, View

_NOT_SHOWN: Final = frozenset({"local"})
RESHARDING: Final = "system.resharding."
"""Prefix of the name of a collection that will replace another one"""
_CACHED: Final = 4
"""Open cursors use the placement under which they were opened"""


@dataclass(frozen=True, slots=True)
class ClusterCatalog:
    """The catalog of a cluster, and the shards of each collection."""

    catalog: Catalog
    places: Mapping[bytes, tuple[str, ...]]
    """The shards of a collection, by its UUID"""
    indexed: Mapping[int, Collection]
    """The collection of an index, by the index's number"""


@dataclass(slots=True)
class CatalogMerger:
    """Merges the catalogs of shards, and caches the results."""

    _numbers: dict[tuple[bytes, str], int] = field(default_factory=dict)
    _made: "deque[tuple[PlacementState, Mapping[str, Catalog], ClusterCatalog]]" = field(
        default_factory=lambda: deque(maxlen=_CACHED)
    )

    def merged(self, placement: PlacementState, catalogs: Mapping[str, Catalog]) -> ClusterCatalog:
        """The cluster's catalog; ``catalogs`` are those of all shards and of the config server."""
        for made_under, made_of, merged in self._made:
            if made_under is placement and _are_same(made_of, catalogs):
                return merged
        merged = self._merge(placement, catalogs)
        self._made.appendleft((placement, dict(catalogs), merged))
        return merged

    def _merge(self, placement: PlacementState, catalogs: Mapping[str, Catalog]) -> ClusterCatalog:
        collections: dict[str, Collection] = {}
        views: dict[str, View] = {}
        places: dict[bytes, tuple[str, ...]] = {}
        for shard, catalog in catalogs.items():
            for collection in catalog.collections():
                ns = collection.ns
                if ns in placement.collections or not self._shows(shard, collection):
                    continue
                if shard == placement.primary_of(collection.database):
                    collections[ns] = self._renumbered(collection)
                    places[collection.uuid] = (shard,)
            for view in catalog.views():
                if shard == placement.primary_of(view.database):
                    views[view.ns] = view
        for placed in placement.collections.values():
            found = {shard: _found(catalogs.get(shard), placed.uuid) for shard in placed.shards}
            on_shards = {shard: collection for shard, collection in found.items() if collection is not None}
            if on_shards:
                named = next(iter(on_shards.values())).with_changes(name=placed.ns.partition(".")[2])
                collections[placed.ns] = self._renumbered(named)
                places[placed.uuid] = tuple(on_shards)
        indexed = {index.ident: own for own in collections.values() for index in own.indexes}
        return ClusterCatalog(Catalog(collections, views), places, indexed)

    @staticmethod
    def _shows(shard: str, collection: Collection) -> bool:
        if collection.database in _NOT_SHOWN or collection.is_internal:
            return False
        if collection.name.startswith(RESHARDING):
            return False  # it has not replaced the other one yet
        return (collection.database in CONFIG_DATABASES) == (shard == CONFIG_SHARD)

    def _renumbered(self, collection: Collection) -> Collection:
        uuid = collection.uuid
        indexes = tuple(Index(self._number(uuid, index.name), index.spec) for index in collection.indexes)
        return collection.with_changes(ident=self._number(uuid, ""), indexes=indexes)

    def _number(self, uuid: bytes, index: str) -> int:
        return self._numbers.setdefault((uuid, index), len(self._numbers) + 1)


def _found(catalog: Catalog | None, uuid: bytes) -> Collection | None:
    return None if catalog is None else catalog.by_uuid(uuid)


def _are_same(some: Mapping[str, Catalog], others: Mapping[str, Catalog]) -> bool:
    return some.keys() == others.keys() and all(some[name] is others[name] for name in some)
