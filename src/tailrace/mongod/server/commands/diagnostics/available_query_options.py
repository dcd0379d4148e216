"""`availableQueryOptions`: show the flags of queries in the old wire protocol."""

from typing import Final

from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context

_OPTIONS: Final = 0b11110110
"""Every flag from `tailable` to `partial` but the one that only replication used."""


async def run(_context: Context) -> Reply:
    return {"options": _OPTIONS}


COMMAND = Command(
    "availableQueryOptions",
    run,
    needs=LOGGED_IN,
    help="Show the flags of queries.",
    aliases=("availablequeryoptions",),
    same_on_router=True,
)
