"""`isdbgrid`: the question whether this is a router."""

import socket

from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(_context: Context) -> Reply:
    """It is."""
    return {"isdbgrid": 1, "hostname": socket.gethostname()}


COMMAND = Command("isdbgrid", run, help="Tells that this is a router.", aliases=("isDbGrid",))
