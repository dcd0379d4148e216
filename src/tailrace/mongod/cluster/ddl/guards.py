"""Hold the placement of namespaces, shared or exclusively, while a command runs on shards.

Waiting for the locks can be interrupted by the client; what runs on the shards afterwards is completed.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tailrace.mongod.cluster.placement.locks import HeldLocks
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.dispatch.context import Context


@asynccontextmanager
async def shared_placement(context: RouterContext, *namespaces: str) -> AsyncIterator[None]:
    """The placement of these namespaces does not change; others may use them as well."""
    async with held(context, context.node.placement.using(*namespaces)):
        yield


@asynccontextmanager
async def exclusive_placement(context: RouterContext, *namespaces: str) -> AsyncIterator[None]:
    """Nobody else uses these namespaces; a name without a dot is a whole database."""
    async with held(context, context.node.placement.changing(*namespaces)):
        yield


@asynccontextmanager
async def shared_placement_with_database(context: RouterContext, ns: str) -> AsyncIterator[str]:
    """Like `shared_placement`; creates the database if necessary and yields its primary shard."""
    async with shared_placement(context, ns):
        yield await context.node.placement.create_database(ns.partition(".")[0])


@asynccontextmanager
async def held(context: Context, locks: HeldLocks) -> AsyncIterator[None]:
    async with AsyncExitStack() as held:
        with context.waiting():
            await held.enter_async_context(locks)
        yield
