"""Find the shards that have a collection: its owners, and shards with a copy that nobody reads."""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.mongod.cluster.placement.queries import PlacementQueries
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.ddl.lookup import check_uuid
from tailrace.mongod.store.store import Store

Stores = Mapping[str, Store]
"""The stores of the shards and of the config server, by name"""


class CollectionShards(NamedTuple):
    """The shards with a collection of one name."""

    owners: tuple[str, ...]
    """Shards on which the placement puts the collection"""
    others: tuple[str, ...]
    """Shards that own nothing of it: a move is copying it to them, or has moved it away"""

    @property
    def all(self) -> tuple[str, ...]:
        """The owners first."""
        return (*self.owners, *self.others)


def find_collection_shards(placement: PlacementQueries, stores: Stores, ns: str) -> CollectionShards:
    """The shards that have a collection of that name."""
    placed = placement.shards_of(ns)
    found = [name for name, store in stores.items() if store.catalog.collection(ns) is not None]
    owners = tuple(name for name in placed if name in found)
    return CollectionShards(owners, tuple(name for name in found if name not in placed))


def index_names(store: Store, ns: str) -> set[str]:
    """The indexes that a collection has on one shard."""
    collection = store.catalog.collection(ns)
    return set() if collection is None else {index.name for index in collection.indexes}


def collection_with_all_indexes(placement: PlacementQueries, stores: Stores, ns: str) -> Collection | None:
    """A collection with all indexes that it has on any owner; None if it does not exist."""
    on_owners = [
        stores[name].catalog.collection(ns) for name in find_collection_shards(placement, stores, ns).owners
    ]
    found = [collection for collection in on_owners if collection is not None]
    indexes = {index.name: index for collection in found for index in collection.indexes}
    return found[0].with_changes(indexes=tuple(indexes.values())) if found else None


def check_collection_uuid(catalog: Catalog, ns: str, expected: bytes | None) -> None:
    """Raise CollectionUUIDMismatch (361) if ``expected`` is given and is not the collection's UUID."""
    database, _, name = ns.partition(".")
    check_uuid(catalog, database, name, expected)
