"""`hostInfo`: describe the machine and its operating system."""

from bson import DatetimeMS

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.admin import process_info
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command


async def run(context: Context) -> Reply:
    context.arguments().finish()
    now = DatetimeMS(context.node.wall.milliseconds())
    return {
        "system": {"currentTime": now, **process_info.system()},
        "os": process_info.operating_system(),
        "extra": {},
    }


_FIELDS = command({})

COMMAND = Command(
    "hostInfo",
    run,
    needs=on_cluster("hostInfo"),
    help="Describe the machine this server runs on.",
    fields=_FIELDS,
    same_on_router=True,
)
