"""Store the placement in documents of the config server, where clients and tools read it.

=================== ========================================================================================
config.version      the cluster's id
config.shards       the shards
config.removedShards removed shards, and when: streams cannot be resumed from before that
config.databases    each database and its primary shard
config.collections  the tracked collections
config.chunks       their ranges and the owners
config.settings     settings of the balancer
config.changelog    changes, the newest last; capped
config.tags         ranges of zones
=================== ========================================================================================

They are ordinary documents, and their changes are in the config server's oplog. A change of the placement is
written as the difference between two states, so fields that clients have added to a document are preserved.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bson import Binary, DatetimeMS, Int64, ObjectId, Timestamp
from bson.binary import UUID_SUBTYPE

from tailrace.bson.documents import encode
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.mongod.cluster.placement.chunk_map import Chunk, ChunkMap, ChunkVersion, OwnershipPeriod
from tailrace.mongod.cluster.placement.config_documents import (
    document_of,
    documents_of,
    merge_document,
    remove_document,
)
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import Database, PlacementState, Shard, TrackedCollection
from tailrace.mongod.cluster.placement.zones import TAGS, follow_collections
from tailrace.mongod.store.capped import insert_capped
from tailrace.mongod.store.catalog import Collection as StoredCollection
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.write_unit import WriteUnit

SHARDS: Final = "shards"
REMOVED_SHARDS: Final = "removedShards"
DATABASES: Final = "databases"
COLLECTIONS: Final = "collections"
CHUNKS: Final = "chunks"
SETTINGS: Final = "settings"
CHANGELOG: Final = "changelog"
VERSION: Final = "version"
_CHANGELOG_BYTES: Final = 200 << 20
_OPTIONS: Final[dict[str, dict[str, Any]]] = {CHANGELOG: {"capped": True, "size": _CHANGELOG_BYTES}}
_EMPTY: Final = (TAGS,)
"""Collections that tools expect to exist"""
_INITIAL_FIELDS: Final[dict[str, dict[str, Any]]] = {COLLECTIONS: {"noBalance": False}}
"""Fields of new documents that clients may change afterwards"""
_SHARD_AWARE: Final = 1

Documents = dict[tuple[str, Any], dict[str, Any]]
"""By collection and `_id`"""


def load(reader: Reader) -> PlacementState:
    """Read the placement from the documents."""
    by_uuid: dict[bytes, list[Chunk]] = {}
    for document in documents_of(reader, CHUNKS):
        by_uuid.setdefault(bytes(document["uuid"]), []).append(_chunk(document))
    collections = [
        _collection(document, by_uuid[bytes(document["uuid"])])
        for document in documents_of(reader, COLLECTIONS)
    ]
    shards = [_shard(document) for document in documents_of(reader, SHARDS)]
    databases = [_database(document) for document in documents_of(reader, DATABASES)]
    return PlacementState(
        shards={shard.name: shard for shard in sorted(shards, key=lambda shard: shard.topology_time)},
        databases={database.name: database for database in databases},
        collections={collection.ns: collection for collection in collections},
        removed={
            document["_id"]: from_timestamp(document["removedTime"])
            for document in documents_of(reader, REMOVED_SHARDS)
        },
    )


def cluster_id(reader: Reader) -> ObjectId | None:
    """The id of the cluster; None before `begin` was called."""
    return next((document["clusterId"] for document in documents_of(reader, VERSION)), None)


def begin(unit: WriteUnit) -> None:
    """Create the collections that a cluster has from the beginning, and its id."""
    if cluster_id(unit) is None:
        _put(unit, VERSION, {"_id": 1, "clusterId": ObjectId()})
        # Without a document, shells assume that the balancer is on.
        _put(unit, SETTINGS, {"_id": "balancer", "mode": "off", "stopped": True})
    for name in (SHARDS, DATABASES, COLLECTIONS, CHUNKS, SETTINGS, CHANGELOG, *_EMPTY):
        _ensure_collection(unit, name)


def write_change(unit: WriteUnit, before: PlacementState, after: PlacementState) -> None:
    """Write the difference between two states."""
    old, new = _changed(before, after), _changed(after, before)
    for place in old.keys() - new.keys():
        remove_document(unit, *place)
    for (name, identity), document in new.items():
        was = old.get((name, identity), {})
        if document != was:
            _put(unit, name, document, was.keys() - document.keys())
    follow_collections(unit, before, after)


def log_change(unit: WriteUnit, server: str, what: str, ns: str, details: Mapping[str, Any]) -> None:
    """Add an entry to config.changelog."""
    collection = _ensure_collection(unit, CHANGELOG)
    document = {
        "_id": f"{server}-{unit.wall}-{ObjectId()}",
        "server": server,
        "clientAddr": "",
        "time": DatetimeMS(unit.wall),
        "what": what,
        "ns": ns,
        "details": dict(details),
    }
    insert_capped(unit, collection, encode(document), None)


def put_former_host(unit: WriteUnit, name: str, host: str) -> None:
    """Store where a removed shard still runs; an empty host means nowhere."""
    _put(unit, REMOVED_SHARDS, {"_id": name, "host": host})


def put_setting(unit: WriteUnit, identity: str, fields: Mapping[str, Any]) -> None:
    """Set fields of a document of config.settings."""
    _put(unit, SETTINGS, {"_id": identity, **fields})


def setting(reader: Reader, identity: str) -> dict[str, Any]:
    """A document of config.settings; empty if there is none."""
    return document_of(reader, SETTINGS, identity) or {}


# -- writing ------------------------------------------------------------------------------------------------


def _ensure_collection(unit: WriteUnit, name: str) -> StoredCollection:
    collection = unit.catalog.collection(f"config.{name}")
    if collection is not None:
        return collection
    collection = unit.create_collection("config", name, _OPTIONS.get(name))
    if name == CHUNKS:
        for fields in (("uuid", "min"), ("uuid", "shard", "min"), ("uuid", "lastmod")):
            key = dict.fromkeys(fields, 1)
            index_name = "_".join(f"{field}_1" for field in fields)
            is_unique = "shard" not in fields
            spec = {"v": 2, "key": key, "name": index_name, **({"unique": True} if is_unique else {})}
            collection = unit.add_index(collection, spec)
    return collection


def _put(unit: WriteUnit, name: str, document: Mapping[str, Any], removed: Iterable[str] = ()) -> None:
    collection = _ensure_collection(unit, name)
    if not merge_document(unit, collection, document, frozenset(removed)):
        unit.insert(collection, encode({**document, **_INITIAL_FIELDS.get(name, {})}))


def _changed(state: PlacementState, other: PlacementState) -> Documents:
    """The documents of everything in a state that is different in the other one, or not in it."""
    found: Documents = {}
    for shard in state.shards.values():
        if other.shards.get(shard.name) is not shard:
            found[SHARDS, shard.name] = _shard_document(shard)
    for database in state.databases.values():
        if other.databases.get(database.name) is not database:
            found[DATABASES, database.name] = _database_document(database)
    for name, time in state.removed.items():
        if other.removed.get(name) != time:
            found[REMOVED_SHARDS, name] = {"_id": name, "removedTime": to_timestamp(time)}
    for collection in state.collections.values():
        if other.collections.get(collection.ns) is collection:
            continue
        found[COLLECTIONS, collection.ns] = _collection_document(collection)
        chunks = _chunks_of(other, collection)
        for chunk in collection.chunks:
            if chunks.get(chunk.id) is not chunk:
                found[CHUNKS, chunk.id] = _chunk_document(chunk, collection)
    return found


def _chunks_of(state: PlacementState, collection: TrackedCollection) -> dict[ObjectId, Chunk]:
    """The chunks of the same collection in another state, in which its name may be different."""
    counterpart = state.collections.get(collection.ns)
    if counterpart is None or counterpart.uuid != collection.uuid:
        counterpart = state.by_uuid(collection.uuid)
    return {} if counterpart is None else {chunk.id: chunk for chunk in counterpart.chunks}


# -- documents ----------------------------------------------------------------------------------------------


def _shard_document(shard: Shard) -> dict[str, Any]:
    document: dict[str, Any] = {
        "_id": shard.name,
        "host": shard.host,
        "state": _SHARD_AWARE,
        "topologyTime": to_timestamp(shard.topology_time),
        "replSetConfigVersion": Int64(-1),
    }
    if shard.zones:
        document["tags"] = list(shard.zones)
    if shard.is_draining:
        document["draining"] = True
    return document


def _shard(document: Mapping[str, Any]) -> Shard:
    return Shard(
        document["_id"],
        document["host"],
        from_timestamp(document["topologyTime"]),
        bool(document.get("draining")),
        tuple(document.get("tags", ())),
    )


def _database_document(database: Database) -> dict[str, Any]:
    return {
        "_id": database.name,
        "primary": database.primary,
        "version": {
            "uuid": Binary(database.uuid, UUID_SUBTYPE),
            "timestamp": to_timestamp(database.timestamp),
            "lastMod": database.last_mod,
        },
    }


def _database(document: Mapping[str, Any]) -> Database:
    version = document["version"]
    return Database(
        document["_id"],
        document["primary"],
        bytes(version["uuid"]),
        from_timestamp(version["timestamp"]),
        int(version["lastMod"]),
    )


def _collection_document(collection: TrackedCollection) -> dict[str, Any]:
    document: dict[str, Any] = {
        "_id": collection.ns,
        "lastmodEpoch": collection.epoch,
        "lastMod": DatetimeMS(collection.last_mod),
        "timestamp": to_timestamp(collection.timestamp),
        "uuid": Binary(collection.uuid, UUID_SUBTYPE),
        "key": collection.key.pattern,
        "unique": collection.unique,
    }
    if collection.collation is not None:
        document["defaultCollation"] = dict(collection.collation)
    if collection.is_unsplittable:
        document["unsplittable"] = True
    if collection.may_have_orphans:
        document["mayHaveOrphans"] = True
    return document


def _collection(document: Mapping[str, Any], chunks: list[Chunk]) -> TrackedCollection:
    key = ShardKey(document["key"])
    return TrackedCollection(
        ns=document["_id"],
        uuid=bytes(document["uuid"]),
        key=key,
        chunks=ChunkMap(key, sorted(chunks, key=lambda chunk: key.bound(chunk.min))),
        timestamp=from_timestamp(document["timestamp"]),
        epoch=document["lastmodEpoch"],
        unique=document["unique"],
        collation=document.get("defaultCollation"),
        is_unsplittable=bool(document.get("unsplittable")),
        may_have_orphans=bool(document.get("mayHaveOrphans")),
        last_mod=int(document["lastMod"]),
    )


def _chunk_document(chunk: Chunk, collection: TrackedCollection) -> dict[str, Any]:
    document: dict[str, Any] = {
        "_id": chunk.id,
        "uuid": Binary(collection.uuid, UUID_SUBTYPE),
        "min": dict(chunk.min),
        "max": dict(chunk.max),
        "shard": chunk.shard,
        "lastmod": Timestamp(*chunk.version),
    }
    if chunk.history:
        document["onCurrentShardSince"] = to_timestamp(chunk.history[0].since)
    document["history"] = [
        {"validAfter": to_timestamp(since), "shard": shard} for since, shard in chunk.history
    ]
    if chunk.is_jumbo:
        document["jumbo"] = True
    return document


def _chunk(document: Mapping[str, Any]) -> Chunk:
    version = document["lastmod"]
    return Chunk(
        document["min"],
        document["max"],
        document["shard"],
        ChunkVersion(version.time, version.inc),
        tuple(
            OwnershipPeriod(from_timestamp(stay["validAfter"]), stay["shard"]) for stay in document["history"]
        ),
        document["_id"],
        bool(document.get("jumbo")),
    )
