"""`fsyncUnlock`: let writes continue."""

from bson import Int64

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext


async def run(context: MemberContext) -> Reply:
    lock = context.node.store.write_lock
    if not lock.count:
        raise CommandError(0, "fsyncUnlock called when not locked")
    return {"info": "fsyncUnlock completed", "lockCount": Int64(lock.unlock())}


COMMAND = Command(
    "fsyncUnlock", run, needs=on_cluster("unlock"), help="Let writes continue.", admin_only=True
)
