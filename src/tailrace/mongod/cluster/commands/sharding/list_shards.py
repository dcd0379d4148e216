"""`listShards`."""

from tailrace.mongod.cluster.placement.config_catalog import SHARDS
from tailrace.mongod.cluster.placement.config_documents import documents_of
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    """The documents of config.shards."""
    context.arguments().finish()
    with context.node.config.store.snapshot() as snapshot:
        return {"shards": list(documents_of(snapshot, SHARDS))}


COMMAND = Command(
    "listShards", run, needs=on_cluster("listShards"), help="List the shards of the cluster.", admin_only=True
)
