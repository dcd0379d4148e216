"""`shardCollection`: distribute a collection over the shards by a key."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.cluster.ddl.guards import exclusive_placement
from tailrace.mongod.cluster.ddl.unfinished import recorded_until_done
from tailrace.mongod.cluster.moves.collection_copies import copy_collection
from tailrace.mongod.cluster.moves.payload_entries import announce_sharded, clear_announcement
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.chunk_splitting import hashed_chunks
from tailrace.mongod.cluster.placement.shard_key import HASHED, ShardKey
from tailrace.mongod.cluster.placement.shard_key_index import (
    SIMPLE,
    check_has_key_index,
    check_key_values,
    check_unique_indexes,
    has_key_index,
    key_index_spec,
)
from tailrace.mongod.cluster.placement.shard_metadata import stored_key_fields
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument
from tailrace.mongod.server.dispatch.internal_calls import call
from tailrace.mongod.server.emulation.release import IGNORED_NUMBER_OF_CHUNKS
from tailrace.mongod.server.replica_set.member import Member
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.ddl.names import SYSTEM_PREFIX

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router

_MOST_CHUNKS: Final = 8192
"""Limit of `numInitialChunks` for each shard"""


@dataclass(frozen=True, slots=True)
class _Wanted:
    database: str
    name: str
    key: ShardKey
    unique: bool
    number: int | None
    """Number of initial chunks"""
    collation: dict[str, Any] | None
    makes_index: bool
    presplits_zones: bool

    @property
    def ns(self) -> str:
        return f"{self.database}.{self.name}"


async def run(context: RouterContext) -> Reply:
    """Shard a collection; does nothing if it is already sharded in this way."""
    wanted = _read(context)
    router = context.node
    placement = router.placement
    async with exclusive_placement(context, wanted.ns):
        await placement.create_database(wanted.database)
        known = placement.sharded(wanted.ns)
        if known is None:
            async with recorded_until_done(context):
                await _shard(router, wanted)
        elif known.key != wanted.key or known.unique != wanted.unique:
            raise CommandError(
                ErrorCode.AlreadyInitialized,
                f"{wanted.ns} is sharded already, by {shell(known.key.pattern)} with unique: "
                f"{shell(known.unique)}; use reshardCollection to change the key",
            )
        for shard in router.shards.values():
            await clear_announcement(shard.store, placement.require(wanted.ns).uuid)
    return {"collectionsharded": wanted.ns}


def _read(context: RouterContext) -> _Wanted:
    arguments = context.arguments()
    database, name = namespace_argument(arguments, context.name)
    wanted = _Wanted(
        database,
        name,
        ShardKey(arguments.document("key")),
        arguments.boolean("unique", False),
        arguments.integer("numInitialChunks", None, minimum=1),
        arguments.document("collation", None),
        arguments.boolean("implicitlyCreateIndex", True),
        arguments.boolean("presplitHashedZones", False),
    )
    arguments.ignore("enforceUniquenessCheck")
    _refuse_unsupported_options(arguments)
    arguments.finish()
    if database in INTERNAL_DATABASES or name.startswith(SYSTEM_PREFIX):
        raise CommandError(ErrorCode.IllegalOperation, f"{wanted.ns} cannot be sharded")
    if wanted.unique and wanted.key.is_hashed:
        raise CommandError(
            ErrorCode.InvalidOptions,
            "a hashed shard key cannot be unique; create a further unique index that is not hashed",
        )
    if wanted.collation is not None and wanted.collation != SIMPLE:
        raise CommandError(
            ErrorCode.BadValue,
            f"the collation of a shard key is {shell(SIMPLE)}, not {shell(wanted.collation)}",
        )
    return wanted


def _refuse_unsupported_options(arguments: Arguments) -> None:
    if arguments.document("timeseries", None) is not None:
        raise CommandError(ErrorCode.NotImplemented, "time-series collections cannot be sharded here")


async def _shard(router: "Router", wanted: _Wanted) -> None:
    """Shard the collection after its arguments were checked, while nobody else uses it."""
    placement = router.placement
    home_name = placement.shards_of(wanted.ns)[0]
    home = router.member(home_name)
    existing = _existing(home, wanted)
    is_empty = existing is None or await asyncio.to_thread(_check_documents, home, existing, wanted.key)
    chunks = _first_chunks(router, wanted, home_name, is_empty=is_empty)
    if existing is None:
        await call(home, {"create": wanted.name}, wanted.database)
    collection = await _indexed(home, wanted, is_empty=is_empty)
    copy = collection.with_changes(shard_key=stored_key_fields(wanted.key.paths))
    for name in chunks.owners:
        if name != home_name:
            await copy_collection(router.stores[name], copy)
    await announce_sharded(home.store, collection, wanted.key.paths, _payload(wanted))
    details = {"shardKey": wanted.key.pattern, "primary": home_name, "numChunks": len(chunks)}
    await placement.set_sharded(
        wanted.ns,
        collection.uuid,
        wanted.key,
        chunks,
        unique=wanted.unique,
        collation=collection.options.get("collation"),
        log=("shardCollection.end", wanted.ns, details),
    )


def _existing(home: Member, wanted: _Wanted) -> Collection | None:
    """The collection, after checks that it can be sharded; None if it does not exist."""
    catalog = home.store.catalog
    if catalog.view(wanted.ns) is not None:
        raise CommandError(
            ErrorCode.CommandNotSupportedOnView, f"{wanted.ns} is a view; shard the collection it is on"
        )
    found = catalog.collection(wanted.ns)
    if found is None:
        return None
    if found.is_capped:
        raise CommandError(ErrorCode.InvalidOptions, f"{wanted.ns} is capped and cannot be sharded")
    if found.is_timeseries:
        raise CommandError(ErrorCode.NotImplemented, "time-series collections cannot be sharded here")
    if found.options.get("collation") is not None and wanted.collation is None:
        raise CommandError(
            ErrorCode.BadValue,
            f"{wanted.ns} has its own collation, which a shard key cannot have; "
            f"set collation: {shell(SIMPLE)} to shard it by the simple one",
        )
    check_unique_indexes(found, wanted.key)
    return found


def _first_chunks(router: "Router", wanted: _Wanted, home: str, *, is_empty: bool) -> ChunkMap:
    spreads = is_empty and wanted.key.pattern[wanted.key.paths[0]] == HASHED
    is_ignored = router.release.has(IGNORED_NUMBER_OF_CHUNKS)
    if wanted.number is not None and not (is_empty and wanted.key.is_hashed) and not is_ignored:
        raise CommandError(
            ErrorCode.InvalidOptions,
            "numInitialChunks needs an empty collection and a hashed field in the shard key",
        )
    if wanted.presplits_zones and not wanted.key.is_hashed:
        raise CommandError(ErrorCode.InvalidOptions, "presplitHashedZones needs a hashed field in the key")
    now = router.clock.tick()
    zones = router.placement.zones(wanted.ns, wanted.key)
    if zones and is_empty:
        return zones.first_chunks(now)
    if not spreads:
        return ChunkMap.whole(wanted.key, home, now)
    shards = [name for name, shard in router.placement.shards.items() if not shard.is_draining]
    if wanted.number is not None and wanted.number > _MOST_CHUNKS * len(shards):
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"numInitialChunks cannot be more than {_MOST_CHUNKS} for each of the {len(shards)} shards",
        )
    return hashed_chunks(wanted.key, shards, wanted.number, now)


async def _indexed(home: Member, wanted: _Wanted, *, is_empty: bool) -> Collection:
    """The collection with an index that supports the key, which is created if allowed."""
    store = home.store
    with store.snapshot() as snapshot:
        collection = snapshot.catalog.collection(wanted.ns)
        if collection is None:
            raise CommandError(ErrorCode.NamespaceNotFound, f"{wanted.ns} was dropped while it was sharded")
        if has_key_index(snapshot, collection, wanted.key, unique=wanted.unique):
            return collection
        if not is_empty or not wanted.makes_index:
            check_has_key_index(snapshot, collection, wanted.key, unique=wanted.unique)
    spec = key_index_spec(collection, wanted.key, unique=wanted.unique)
    await call(home, {"createIndexes": wanted.name, "indexes": [spec]}, wanted.database)
    return store.catalog.collection(wanted.ns) or collection


def _check_documents(home: Member, collection: Collection, key: ShardKey) -> bool:
    """Whether there are no documents; raises if one has an array in its key."""
    with home.store.snapshot() as snapshot:
        check_key_values(snapshot, collection, key)
        return snapshot.count(collection)[0] == 0


def _payload(wanted: _Wanted) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "shardCollection": wanted.ns,
        "shardKey": wanted.key.pattern,
        "unique": wanted.unique,
        "presplitHashedZones": wanted.presplits_zones,
        "capped": False,
    }
    if wanted.number is not None:
        payload["numInitialChunks"] = Int64(wanted.number)
    if wanted.collation is not None:
        payload["collation"] = wanted.collation
    return payload


COMMAND = Command(
    "shardCollection",
    run,
    needs=on_full_name("enableSharding"),
    help="Distribute a collection over the shards by a key.",
    aliases=("shardcollection",),
    admin_only=True,
    is_write=True,
)
