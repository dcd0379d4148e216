"""`whatsmysni`: show the server name of this connection's TLS handshake; there is no TLS."""

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context


async def run(_context: Context) -> Reply:
    return {"sni": False}


COMMAND = Command(
    "whatsmysni",
    run,
    needs=LOGGED_IN,
    help="Show the server name of the TLS handshake.",
    admin_only=True,
    same_on_router=True,
)
