"""The collections of a whole cluster, as a router sees them.

A collection that is spread over shards is one collection; `admin` and `config` are the config server's. The
numbers by which a store tells collections and indexes apart mean nothing elsewhere, so the cluster's have
numbers of their own, which stay the same wherever the collection moves.

A collection with a place of its own is the one with the UUID that the placement says, whatever a shard calls
it. So a collection that takes another's place does so when the placement changes, for all shards at once.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.mongod.cluster.placement.state import CONFIG_DATABASES, CONFIG_SHARD, PlacementState
from tailrace.mongod.store.catalog import Catalog, Collection, Index, View

_NOT_SHOWN: Final = frozenset({"local"})
RESHARDING: Final = "system.resharding."
"""What the name of a collection begins with that is to take another's place"""
_KEPT: Final = 4
"""Catalogs that are kept: cursors that are open read under the placement of their beginning"""


@dataclass(frozen=True, slots=True)
class ClusterCatalog:
    """What a cluster has, and which shards have it."""

    catalog: Catalog
    places: Mapping[bytes, tuple[str, ...]]
    """The shards of a collection, by its UUID"""
    indexed: Mapping[int, Collection]
    """The collection of an index, by the index's number"""


@dataclass(slots=True)
class CatalogMerger:
    """Makes the catalog of a cluster from those of its shards, anew only when something has changed."""

    _numbers: dict[tuple[bytes, str], int] = field(default_factory=dict)
    _made: "deque[tuple[PlacementState, Mapping[str, Catalog], ClusterCatalog]]" = field(
        default_factory=lambda: deque(maxlen=_KEPT)
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
            having = {shard: collection for shard, collection in found.items() if collection is not None}
            if having:
                named = next(iter(having.values())).with_changes(name=placed.ns.partition(".")[2])
                collections[placed.ns] = self._renumbered(named)
                places[placed.uuid] = tuple(having)
        indexed = {index.ident: own for own in collections.values() for index in own.indexes}
        return ClusterCatalog(Catalog(collections, views), places, indexed)

    @staticmethod
    def _shows(shard: str, collection: Collection) -> bool:
        if collection.database in _NOT_SHOWN or collection.is_internal:
            return False
        if collection.name.startswith(RESHARDING):
            return False  # it is on its way to another's place
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
