"""What is known about the placement of a cluster at one moment: frozen values, replaced when one changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bson import ObjectId

from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.server.admin.data_directory import CONFIG_SERVER

CONFIG_SHARD: Final = CONFIG_SERVER
"""What the config server is called where a shard's name is expected"""
CONFIG_DATABASES: Final = frozenset({"admin", "config"})
"""Databases that live on the config server"""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard of the cluster."""

    name: str
    host: str
    """Name of its replica set, a slash and its members, as drivers are told"""
    topology_time: int
    """Cluster time at which it joined"""
    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class Database:
    """A database and the shard on which its collections live unless they are placed elsewhere."""

    name: str
    primary: str
    uuid: bytes
    timestamp: int
    last_mod: int = 1
    """Counts its primaries"""


@dataclass(frozen=True, slots=True)
class ShardedCollection:
    """A collection with a place of its own: it is sharded, or lives on another shard than the primary."""

    ns: str
    uuid: bytes
    key: ShardKey
    chunks: ChunkMap
    timestamp: int
    """Cluster time at which it was sharded or last got another key"""
    epoch: ObjectId = field(default_factory=ObjectId)
    unique: bool = False
    collation: Mapping[str, object] | None = None
    """The collection's default; targeting by strings works under the simple collation alone"""
    is_unsplittable: bool = False
    """Whether it is not sharded and only has a place of its own"""
    may_have_orphans: bool = False
    """Whether a shard may have documents that it does not own: a migration copies them or left them"""
    last_mod: int = 0
    """Milliseconds since 1970"""

    @property
    def shards(self) -> tuple[str, ...]:
        """Those that own a part of it."""
        return self.chunks.owners

    def owner_of(self, document: bytes) -> str:
        """The shard a document belongs to."""
        return self.chunks.owner_of(self.key.key_of(document))

    def owns(self, shard: str, document: bytes) -> bool:
        """Whether a document that a shard has is the shard's own, and no orphan."""
        return self.chunks.owner_of(self.key.key_of(document)) == shard


@dataclass(frozen=True, slots=True)
class PlacementState:
    """All of it."""

    shards: Mapping[str, Shard] = field(default_factory=dict)
    databases: Mapping[str, Database] = field(default_factory=dict)
    collections: Mapping[str, ShardedCollection] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    """Names of shards that were removed, and the cluster time of the last time"""

    def primary_of(self, database: str) -> str | None:
        """The shard a database's unsharded collections live on; None if there is no such database."""
        if database in CONFIG_DATABASES:
            return CONFIG_SHARD
        found = self.databases.get(database)
        return None if found is None else found.primary

    def by_uuid(self, uuid: bytes) -> ShardedCollection | None:
        """A collection by its UUID, no matter what its name is."""
        return next((own for own in self.collections.values() if own.uuid == uuid), None)

    def ownership_of(self, ns: str) -> object:
        """Something that is equal for two placements that have the documents of a namespace in one place."""
        found = self.collections.get(ns)
        if found is None:
            return self.primary_of(ns.partition(".")[0])
        return found.uuid, found.timestamp, found.chunks.version.major

    def shards_of(self, ns: str) -> tuple[str, ...]:
        """The shards that hold, or would hold, the data of a namespace; none without its database."""
        found = self.collections.get(ns)
        if found is not None:
            return found.shards
        primary = self.primary_of(ns.partition(".")[0])
        return () if primary is None else (primary,)
