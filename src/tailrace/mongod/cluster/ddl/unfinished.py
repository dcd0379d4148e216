"""Commands on several shards that a kill interrupted.

Before such a command changes anything it is written down on the config server, in
`config.system.sharding_ddl_coordinators`, and taken out when it is through. A cluster that finds one when it
starts runs it once more: each leaves alone what is done already.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.shard_calls import call
from tailrace.mongod.server.dispatch.arguments import GENERIC_ARGUMENTS
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster
    from tailrace.mongod.server.server import Server

_COLLECTION: Final = "system.sharding_ddl_coordinators"
_NS: Final = f"config.{_COLLECTION}"
_NOT_KEPT: Final = GENERIC_ARGUMENTS | {"collectionUUID"}
"""What has been checked when the command begins"""
_STOPPING: Final = frozenset({ErrorCode.InterruptedAtShutdown, ErrorCode.ShutdownInProgress})


@asynccontextmanager
async def until_done(context: Context) -> AsyncIterator[None]:
    """Around what a command changes on shards: a cluster that is killed in between does it when it starts.

    A command that fails has come to its end, too, unless it failed because the cluster stops.
    """
    store = cluster_of(context).config.store
    command = {name: value for name, value in context.command.items() if name not in _NOT_KEPT}
    for field, raw in context.request.sequences.items():
        command[field] = [decode(document) for document in raw]
    identity = ObjectId()
    await _write_down(store, {"_id": identity, "database": context.database, "command": command})
    try:
        yield
    except Exception as error:
        if not isinstance(error, CommandError) or error.code not in _STOPPING:
            await _take_out(store, identity)
        raise
    await _take_out(store, identity)


async def finish_commands(cluster: "Cluster", router: "Server") -> None:
    """Run what a kill interrupted."""
    store = cluster.config.store
    with store.snapshot() as snapshot:
        collection = snapshot.catalog.collection(_NS)
        found = [] if collection is None else [decode(raw) for _, raw in snapshot.records(collection)]
    for document in found:
        name = next(iter(document["command"]))
        cluster.log.info("SHARDING", "A command goes on that a kill interrupted", "ddl", command=name)
        try:
            await call(router, document["command"], document["database"])
        except CommandError as error:
            cluster.log.warning("SHARDING", "It could not be finished", "ddl", command=name, error=str(error))
        await _take_out(store, document["_id"])


async def _write_down(store: Store, document: dict[str, Any]) -> None:
    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(_NS) or unit.create_collection("config", _COLLECTION)
        unit.insert(collection, encode(document))

    await store.write(work)


async def _take_out(store: Store, identity: ObjectId) -> None:
    key = id_key_of(encode({"_id": identity}))

    def work(unit: WriteUnit) -> None:
        collection = unit.catalog.collection(_NS)
        found = None if collection is None or key is None else unit.find_id(collection, key)
        if collection is not None and found is not None:
            unit.delete(collection, *found)

    await store.write(work)
