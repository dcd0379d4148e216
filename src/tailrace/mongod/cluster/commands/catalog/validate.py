"""`validate` on a router: a collection is valid if it is valid on every shard that has it."""

from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.ddl.collection_shards import find_collection_shards
from tailrace.mongod.cluster.ddl.forwarding import forward_in_turn, raw_replies
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.catalog import validate


async def run(context: RouterContext) -> dict[str, Any]:
    ns = f"{context.database}.{context.collection_name()}"
    router = context.node
    shards = find_collection_shards(router.placement, router.stores, ns).owners or router.placement.shards_of(
        ns
    )
    if not shards:
        raise CommandError(ErrorCode.NamespaceNotFound, f"Collection '{ns}' does not exist to validate.")
    replies = await forward_in_turn(context, shards)
    is_valid = all(reply["valid"] for reply in replies.values())
    return {"valid": is_valid, **raw_replies(context, replies)}


COMMAND = validate.COMMAND.run_by(run)
