"""`connPoolStats`: show connections to other servers; this process has none."""

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(_context: Context) -> Reply:
    return {
        "numClientConnections": 0,
        "numAScopedConnections": 0,
        "totalInUse": 0,
        "totalAvailable": 0,
        "totalLeased": 0,
        "totalCreated": 0,
        "totalRefreshing": 0,
        "totalRefreshed": 0,
        "pools": {},
        "hosts": {},
        "numReplicaSetMonitorsCreated": 0,
        "replicaSets": {},
    }


COMMAND = Command(
    "connPoolStats",
    run,
    needs=on_cluster("connPoolStats"),
    help="Show connections to other servers.",
    same_on_router=True,
)
