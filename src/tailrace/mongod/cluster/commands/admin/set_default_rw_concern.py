"""`setDefaultRWConcern` on a router: the config server stores the concerns of the whole cluster."""

from typing import Any

from tailrace.mongod.cluster.ddl.forwarding import forward
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.commands.admin import set_default_rw_concern


async def run(context: RouterContext) -> dict[str, Any]:
    return await forward(context, CONFIG_SHARD)


COMMAND = set_default_rw_concern.COMMAND.run_by(run)
