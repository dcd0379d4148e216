"""`drop` through a router: on every shard that has the collection; a view on its database's primary."""

from typing import Any

from tailrace.cluster.cluster_of import cluster_of
from tailrace.cluster.ddl.dropping import drop_owned
from tailrace.cluster.ddl.forwarding import forward
from tailrace.cluster.ddl.having import check_expected
from tailrace.cluster.ddl.holding import alone
from tailrace.cluster.ddl.unfinished import until_done
from tailrace.server.command import Command
from tailrace.server.context import Context
from tailrace.server.ddl import collection_uuid
from tailrace.store.ddl.drop import index_count


async def run(context: Context) -> dict[str, Any]:
    """Drop a collection or a view; one that is not there is dropped already."""
    ns = f"{context.database}.{context.collection_name()}"
    arguments = context.arguments()
    expected = collection_uuid(arguments)
    arguments.finish()
    cluster = cluster_of(context)
    async with alone(context, ns):
        check_expected(cluster, ns, expected)
        if ns in cluster.placement.collections:
            collection = cluster.states.catalog.collection(ns)
            async with until_done(context):
                await drop_owned(cluster, ns)
            return {} if collection is None else {"nIndexesWas": index_count(collection), "ns": ns}
        primary = cluster.placement.primary_of(context.database)
        return {} if primary is None else await forward(context, primary)


COMMAND = Command("drop", run, help="Drops a collection or a view.", is_write=True)
