"""`features`: show how scripts and new ObjectIds are made."""

import secrets
from typing import Any

from bson import Int64

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    is_reset = arguments.boolean("oidReset", False)
    arguments.finish()
    node = context.node
    shown: dict[str, Any] = {"js": {"utf8": True}}
    if is_reset:
        shown["oidMachineOld"] = Int64(node.object_id_machine)
        node.object_id_machine = secrets.randbits(32)
    return {**shown, "oidMachine": Int64(node.object_id_machine)}


COMMAND = Command("features", run, needs=LOGGED_IN, help="Show features of this server.", same_on_router=True)
