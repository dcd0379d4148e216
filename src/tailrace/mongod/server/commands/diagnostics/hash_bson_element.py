"""`_hashBSONElement`: the hash of a value, by which shells show where a hashed shard key belongs."""

import ctypes
import math

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import LOGGED_IN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.query.expressions.conversion.hashed_index import hashed_index_key


async def run(context: Context) -> Reply:
    value = context.command[context.name]
    seed = context.command.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int | float) or not math.isfinite(seed):
        raise CommandError(0, "seed must be a number")
    whole = ctypes.c_int32(int(seed)).value
    return {"key": value, "seed": whole, "out": hashed_index_key(value, seed=whole)}


COMMAND = Command(
    "_hashBSONElement",
    run,
    needs=LOGGED_IN,
    help="Show the hash of a value.",
    is_test_command=True,
    same_on_router=True,
)
