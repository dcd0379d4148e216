"""Which shards have a collection: those that own a part of it, and those with a copy that nobody sees."""

from typing import TYPE_CHECKING, NamedTuple

from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.ddl.lookup import check_uuid

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster


class Having(NamedTuple):
    """The shards with a collection of one name."""

    owners: tuple[str, ...]
    """Whose documents count, if the collection is there at all"""
    others: tuple[str, ...]
    """Those that have a collection of this name without owning anything: it is coming to them, or has left"""

    @property
    def all(self) -> tuple[str, ...]:
        """Both."""
        return (*self.owners, *self.others)


def shards_having(cluster: "Cluster", ns: str) -> Having:
    """The shards with a collection of that name, whether it is the one that counts or not."""
    placed = cluster.placement.shards_of(ns)
    found = [name for name, shard in cluster.shards.items() if shard.store.catalog.collection(ns) is not None]
    owners = tuple(name for name in placed if cluster.server(name).store.catalog.collection(ns) is not None)
    return Having(owners, tuple(name for name in found if name not in placed))


def index_names(cluster: "Cluster", shard: str, ns: str) -> set[str]:
    """The indexes that a collection has on one shard."""
    collection = cluster.server(shard).store.catalog.collection(ns)
    return set() if collection is None else {index.name for index in collection.indexes}


def with_all_indexes(cluster: "Cluster", ns: str) -> Collection | None:
    """A collection with the indexes that it has on any of its owners; None if it is not there."""
    on_owners = [
        cluster.server(name).store.catalog.collection(ns) for name in shards_having(cluster, ns).owners
    ]
    found = [collection for collection in on_owners if collection is not None]
    indexes = {index.name: index for collection in found for index in collection.indexes}
    return found[0].with_changes(indexes=tuple(indexes.values())) if found else None


def check_expected(cluster: "Cluster", ns: str, expected: bytes | None) -> None:
    """Refuse a command whose `collectionUUID` is not that of the collection it names (361)."""
    database, _, name = ns.partition(".")
    check_uuid(cluster.states.catalog, database, name, expected)
