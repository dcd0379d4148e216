"""`balancerCollectionStatus`: show whether a collection is balanced."""

from typing import Any

from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_full_name
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import namespace_argument


async def run(context: RouterContext) -> Reply:
    """Whether the balancer would move a range of the collection, and why."""
    arguments = context.arguments()
    ns = ".".join(namespace_argument(arguments, context.name))
    arguments.finish()
    router = context.node
    found = balancing.violation(router.placement, router.stores, router.placement.require(ns))
    reply: dict[str, Any] = {
        "chunkSize": balancing.chunk_megabytes(router.placement),
        "balancerCompliant": found is None,
    }
    if found is not None:
        reply["firstComplianceViolation"] = str(found.kind)
    return reply


COMMAND = Command(
    "balancerCollectionStatus",
    run,
    needs=on_full_name("enableSharding"),
    help="Show whether a collection is balanced.",
    admin_only=True,
)
