"""`listShards`."""

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.placement import config_catalog
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """The shards as config.shards has them."""
    context.arguments().finish()
    with cluster_of(context).config.store.snapshot() as snapshot:
        return {"shards": list(config_catalog.documents_of(snapshot, config_catalog.SHARDS))}


COMMAND = Command("listShards", run, help="Lists the shards of the cluster.", admin_only=True)
