"""`getnonce`: a random number for a way to log in that no longer exists."""

import secrets

from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(_context: Context) -> Reply:
    return {"nonce": secrets.token_hex(8)}


COMMAND = Command("getnonce", run, needs=OPEN, help="Return a random number.", same_on_router=True)
