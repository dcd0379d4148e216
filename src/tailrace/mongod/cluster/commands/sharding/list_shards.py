"""`listShards`."""

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.placement.config_catalog import SHARDS
from tailrace.mongod.cluster.placement.config_documents import documents_of
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """The shards as config.shards has them."""
    context.arguments().finish()
    with cluster_of(context).config.store.snapshot() as snapshot:
        return {"shards": list(documents_of(snapshot, SHARDS))}


COMMAND = Command("listShards", run, help="Lists the shards of the cluster.", admin_only=True)
