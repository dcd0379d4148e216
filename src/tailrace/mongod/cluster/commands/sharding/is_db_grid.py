"""`isdbgrid`: show that this is a router."""

import socket

from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply


async def run(_context: RouterContext) -> Reply:
    return {"isdbgrid": 1, "hostname": socket.gethostname()}


COMMAND = Command("isdbgrid", run, needs=LOGGED_IN, help="Show that this is a router.", aliases=("isDbGrid",))
