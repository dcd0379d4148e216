"""The collections of a whole cluster, as a router sees them.

A collection that is spread over shards is one collection; `admin` and `config` are the config server's. The
numbers by which a store tells collections and indexes apart mean nothing elsewhere, so the cluster's have
numbers of their own, which stay the same wherever the collection moves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.cluster.placement import CONFIG_DATABASES, CONFIG_SHARD, Placement
from tailrace.store.catalog import Catalog, Collection, Index, View

_NOT_SHOWN: Final = frozenset({"local"})


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

    placement: Placement
    _numbers: dict[tuple[bytes, str], int] = field(default_factory=dict)
    _last: ClusterCatalog | None = None
    _made_of: tuple[object, ...] = ()

    def merged(self, catalogs: Mapping[str, Catalog]) -> ClusterCatalog:
        """The cluster's catalog; ``catalogs`` are those of all shards and of the config server."""
        made_of = (self.placement.state, *catalogs.items())
        if self._last is None or made_of != self._made_of:
            self._last = self._merge(catalogs)
            self._made_of = made_of
        return self._last

    def _merge(self, catalogs: Mapping[str, Catalog]) -> ClusterCatalog:
        collections: dict[str, Collection] = {}
        views: dict[str, View] = {}
        places: dict[bytes, tuple[str, ...]] = {}
        for shard, catalog in catalogs.items():
            for collection in catalog.collections():
                ns = collection.ns
                if ns in collections or not self._shows(shard, collection):
                    continue
                owners = self.placement.shards_of(ns)
                if shard not in owners:
                    continue
                having = tuple(owner for owner in owners if _has(catalogs.get(owner), collection))
                collections[ns] = self._renumbered(collection)
                places[collection.uuid] = having
            for view in catalog.views():
                if shard == self.placement.primary_of(view.database):
                    views[view.ns] = view
        indexed = {index.ident: own for own in collections.values() for index in own.indexes}
        return ClusterCatalog(Catalog(collections, views), places, indexed)

    @staticmethod
    def _shows(shard: str, collection: Collection) -> bool:
        if collection.database in _NOT_SHOWN or collection.is_internal:
            return False
        return (collection.database in CONFIG_DATABASES) == (shard == CONFIG_SHARD)

    def _renumbered(self, collection: Collection) -> Collection:
        uuid = collection.uuid
        indexes = tuple(Index(self._number(uuid, index.name), index.spec) for index in collection.indexes)
        return collection.having(ident=self._number(uuid, ""), indexes=indexes)

    def _number(self, uuid: bytes, index: str) -> int:
        return self._numbers.setdefault((uuid, index), len(self._numbers) + 1)


def _has(catalog: Catalog | None, collection: Collection) -> bool:
    return catalog is not None and catalog.by_uuid(collection.uuid) is not None
