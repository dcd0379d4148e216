"""`killOp` on a router: one of its own operations, or a shard's as `shard:number`, as currentOp shows it."""

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.admin import kill_op
from tailrace.mongod.server.commands.admin.kill_op import COMMAND as ON_A_SERVER
from tailrace.mongod.server.dispatch.command import Reply
from tailrace.mongod.server.dispatch.internal_calls import call


async def run(context: RouterContext) -> Reply:
    """Interrupt the operation if it is running; the reply is the same if it is not."""
    wanted = context.command.get("op")
    if not is_string(wanted):
        return await ON_A_SERVER.run(context)
    shard, _, number = wanted.rpartition(":")
    if not shard or not number.isdecimal():
        reason = f"an operation of a shard is named like shard0:17, not {wanted}"
        raise CommandError(ErrorCode.BadValue, reason)
    router = context.node
    server = router.member(router.placement.shard(shard).name)
    await call(server, {"killOp": 1, "op": int(number)}, "admin")
    return {"shard": shard, "shardid": int(number)}


COMMAND = kill_op.COMMAND.run_by(run)
