"""`getCmdLineOpts`: show the options the server was started with."""

from typing import Any

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command


async def run(context: Context) -> Reply:
    """The command line, and the same as a configuration file would have it."""
    context.arguments().finish()
    options = context.node.options
    parsed: dict[str, Any] = {"net": {"bindIp": options.host, "port": context.node.port}}
    if options.replica_set is not None:
        size = options.oplog_bytes >> 20
        parsed["replication"] = {"replSet": options.replica_set, "oplogSizeMB": size}
    if options.data is not None:
        parsed["storage"] = {"dbPath": str(options.data)}
    if options.parameters:
        parsed["setParameter"] = {name: str(value) for name, value in options.parameters.items()}
    return {"argv": ["tailrace", *options.arguments], "parsed": parsed}


_FIELDS = command({})

COMMAND = Command(
    "getCmdLineOpts",
    run,
    needs=on_cluster("getCmdLineOpts"),
    help="Show how the server was started.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
