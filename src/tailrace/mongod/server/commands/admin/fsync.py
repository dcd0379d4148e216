"""`fsync`: write everything to disk, and on request let writes wait until `fsyncUnlock`."""

from typing import Final

from bson import Int64

from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext

_MANUAL: Final = "http://dochub.mongodb.org/core/fsynccommand"


async def run(context: MemberContext) -> Reply:
    """Every acknowledged write is on disk already."""
    if not context.command.get("lock"):
        return {"numFiles": 1}
    number = await context.node.store.write_lock.lock()
    info = "now locked against writes, use db.fsyncUnlock() to unlock"
    return {"info": info, "lockCount": Int64(number), "seeAlso": _MANUAL}


COMMAND = Command(
    "fsync",
    run,
    needs=on_cluster("fsync"),
    help="Write everything to disk; lock against writes.",
    admin_only=True,
)
