"""The placement held still, or alone, while a command runs on shards.

Waiting for it may be interrupted; what then runs on the shards comes to its end.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.placement.locks import HeldLocks
from tailrace.mongod.server.dispatch.context import Context


@asynccontextmanager
async def still(context: Context, *namespaces: str) -> AsyncIterator[None]:
    """While the placement of namespaces stays as it is."""
    async with _held(context, cluster_of(context).placement.using(*namespaces)):
        yield


@asynccontextmanager
async def alone(context: Context, *namespaces: str) -> AsyncIterator[None]:
    """While nobody else uses namespaces; a name without a dot is a database."""
    async with _held(context, cluster_of(context).placement.changing(*namespaces)):
        yield


@asynccontextmanager
async def still_in_database(context: Context, ns: str) -> AsyncIterator[str]:
    """While a namespace stays as it is in its database, which is made if need be; the database's primary."""
    async with still(context, ns):
        yield await cluster_of(context).placement.create_database(ns.partition(".")[0])


@asynccontextmanager
async def _held(context: Context, locks: HeldLocks) -> AsyncIterator[None]:
    async with AsyncExitStack() as held:
        with context.waiting():
            await held.enter_async_context(locks)
        yield
