"""Finish commands on several shards that a kill interrupted.

Before a command changes anything on shards it is recorded on the config server, in
`config.system.sharding_ddl_coordinators`; the record is removed when the command has ended. A cluster that
finds a record when it starts runs the command again. Every such command skips what is already done.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from bson import ObjectId

from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.config_documents import (
    documents_of,
    insert_document,
    remove_document,
)
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.dispatch.fields import GENERIC_ARGUMENTS
from tailrace.mongod.server.dispatch.internal_calls import call
from tailrace.mongod.store.store import Store

if TYPE_CHECKING:
    from tailrace.mongod.cluster.router import Router

_COLLECTION: Final = "system.sharding_ddl_coordinators"
_NOT_RECORDED: Final = GENERIC_ARGUMENTS | {"collectionUUID"}
"""Already checked when the command is recorded"""
_STOPPING: Final = frozenset({ErrorCode.InterruptedAtShutdown, ErrorCode.ShutdownInProgress})


@asynccontextmanager
async def recorded_until_done(context: RouterContext) -> AsyncIterator[None]:
    """Record the command while it changes shards: a cluster that is killed meanwhile runs it when it starts.

    The record is also removed if the command fails, unless it failed because the cluster is stopping.
    """
    store = context.node.config.store
    command = {name: value for name, value in context.command.items() if name not in _NOT_RECORDED}
    for field, raw in context.request.sequences.items():
        command[field] = [decode(document) for document in raw]
    record = {"_id": ObjectId(), "database": context.database, "command": command}
    await store.write(lambda unit: insert_document(unit, _COLLECTION, record))
    try:
        yield
    except Exception as error:
        if not isinstance(error, CommandError) or error.code not in _STOPPING:
            await _remove(store, record["_id"])
        raise
    await _remove(store, record["_id"])


async def finish_interrupted_commands(store: Store, router: "Router", log: Logbook) -> None:
    """Run the recorded commands and remove their records."""
    with store.snapshot() as snapshot:
        records = list(documents_of(snapshot, _COLLECTION))
    for record in records:
        name = next(iter(record["command"]))
        log.info("SHARDING", "A command that a kill interrupted is finished", "ddl", command=name)
        try:
            await call(router, record["command"], record["database"])
        except CommandError as error:
            log.warning("SHARDING", "It could not be finished", "ddl", command=name, error=str(error))
        await _remove(store, record["_id"])


async def _remove(store: Store, identity: object) -> None:
    await store.write(lambda unit: remove_document(unit, _COLLECTION, identity))
