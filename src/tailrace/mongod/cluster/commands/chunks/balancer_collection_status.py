"""`balancerCollectionStatus`: whether a collection is spread evenly enough."""

from typing import Any

from tailrace.mongod.cluster.cluster_of import cluster_of
from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.server.catalog_changes import namespace_argument
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    """What the balancer would do about it."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    arguments.finish()
    cluster = cluster_of(context)
    found = balancing.violation(cluster.placement, cluster.stores, cluster.placement.require(ns))
    reply: dict[str, Any] = {
        "chunkSize": balancing.chunk_megabytes(cluster.placement),
        "balancerCompliant": found is None,
    }
    if found is not None:
        reply["firstComplianceViolation"] = str(found.kind)
    return reply


COMMAND = Command(
    "balancerCollectionStatus", run, help="Tells whether a collection is balanced.", admin_only=True
)
