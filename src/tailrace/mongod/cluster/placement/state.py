"""The placement of a cluster at one moment, as frozen values.

A *tracked* collection is sharded, or was put on a shard independently of its database's primary. All other
collections are on the primary shard of their database.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bson import ObjectId

from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.server.admin.data_directory import CONFIG_SERVER

CONFIG_SHARD: Final = CONFIG_SERVER
"""The config server's name where a shard's name is expected"""
CONFIG_DATABASES: Final = frozenset({"admin", "config"})
"""Databases on the config server"""


@dataclass(frozen=True, slots=True)
class Shard:
    name: str
    host: str
    """Name of its replica set, a slash and its members, in the form that drivers expect"""
    topology_time: int
    """Cluster time at which it joined"""
    is_draining: bool = False
    zones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Database:
    """A database and the primary shard, which has its untracked collections."""

    name: str
    primary: str
    uuid: bytes
    timestamp: int
    last_mod: int = 1
    """Number of primaries so far"""


@dataclass(frozen=True, slots=True)
class TrackedCollection:
    """A tracked collection: sharded, or unsharded on its own shard."""

    ns: str
    uuid: bytes
    key: ShardKey
    chunks: ChunkMap
    timestamp: int
    """Cluster time of the last change of its shard key"""
    epoch: ObjectId = field(default_factory=ObjectId)
    unique: bool = False
    collation: Mapping[str, object] | None = None
    """The collection's default; strings can only be targeted under the simple collation"""
    is_unsplittable: bool = False
    """Whether it is tracked but not sharded"""
    may_have_orphans: bool = False
    """Whether a shard may have documents that it does not own, because of a running or past migration"""
    last_mod: int = 0
    """Milliseconds since 1970"""

    @property
    def shards(self) -> tuple[str, ...]:
        """The shards that own a chunk."""
        return self.chunks.owners

    def owner_of(self, document: bytes) -> str:
        """The shard that owns a document."""
        return self.chunks.owner_of(self.key.key_of(document))

    def owns(self, shard: str, document: bytes) -> bool:
        """Whether a shard owns a document; a document that it has but does not own is an orphan."""
        return self.chunks.owner_of(self.key.key_of(document)) == shard


@dataclass(frozen=True, slots=True)
class PlacementState:
    """Shards, databases and tracked collections, by name."""

    shards: Mapping[str, Shard] = field(default_factory=dict)
    databases: Mapping[str, Database] = field(default_factory=dict)
    collections: Mapping[str, TrackedCollection] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    """The cluster time at which a shard was removed last, by name"""

    def primary_of(self, database: str) -> str | None:
        """The shard of a database's untracked collections; None if the database does not exist."""
        if database in CONFIG_DATABASES:
            return CONFIG_SHARD
        found = self.databases.get(database)
        return None if found is None else found.primary

    def by_uuid(self, uuid: bytes) -> TrackedCollection | None:
        """A tracked collection by its UUID, whatever its name."""
        return next((own for own in self.collections.values() if own.uuid == uuid), None)

    def ownership_of(self, ns: str) -> object:
        """A value that is equal for two states in which a namespace's documents are on the same shards."""
        found = self.collections.get(ns)
        if found is None:
            return self.primary_of(ns.partition(".")[0])
        return found.uuid, found.timestamp, found.chunks.version.major

    def shards_of(self, ns: str) -> tuple[str, ...]:
        """The shards that have, or would have, a namespace's data; none if its database does not exist."""
        found = self.collections.get(ns)
        if found is not None:
            return found.shards
        primary = self.primary_of(ns.partition(".")[0])
        return () if primary is None else (primary,)
