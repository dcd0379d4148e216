"""`removeShard`: empty a shard and remove it from the cluster."""

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.draining import RemainingData, leave_if_empty
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(context: RouterContext) -> Reply:
    """Begin to drain a shard, report the progress, or remove the empty shard; clients call it repeatedly."""
    arguments = context.arguments()
    asked = arguments.text(context.name)
    arguments.finish()
    router = context.node
    placement = router.placement
    shard = placement.shard(asked)
    name = shard.name
    if not shard.is_draining:
        staying = [other for other in placement.shards.values() if other.name != name]
        if any(other.is_draining for other in staying):
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                "another shard is being removed; only one can be removed at a time",
            )
        if not staying:
            raise CommandError(ErrorCode.IllegalOperation, "the last shard of a cluster cannot be removed")
        await placement.set_draining(name)
        await placement.log_change("removeShard.start", "", {"shard": name})
        router.balancer.wake()
        message = {"msg": "draining started successfully", "state": "started", "shard": name}
        return {**message, **RemainingData.of(router.moves, name).to_move()}
    remaining = RemainingData.of(router.moves, name)
    if remaining.is_nothing:
        remaining = await router.moves.run(lambda: leave_if_empty(router.moves, router.servers, name))
    if remaining.is_nothing:
        return {"msg": "removeshard completed successfully", "state": "completed", "shard": name}
    router.balancer.wake()
    message = {"msg": "draining ongoing", "state": "ongoing"}
    return {**message, "remaining": remaining.counts(), **remaining.to_move()}


COMMAND = Command(
    "removeShard",
    run,
    needs=on_cluster("removeShard"),
    help="Empty a shard and remove it from the cluster.",
    aliases=("removeshard",),
    admin_only=True,
    is_write=True,
)
