"""`buildInfo`: show the version of the server."""

import platform
import sys

from tailrace import __version__
from tailrace.bson.raw import MAX_USER_SIZE
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.emulation.version import GIT_VERSION


async def run(context: Context) -> Reply:
    """The MongoDB version that it presents, and Tailrace's own."""
    context.arguments().finish()
    release = context.node.release
    return {
        "version": release.version,
        "gitVersion": GIT_VERSION,
        "modules": [],
        "allocator": "system",
        "javascriptEngine": "none",
        "sysInfo": "deprecated",
        "versionArray": [*release.number, 0],
        "buildEnvironment": {
            "tailrace": __version__,
            "python": platform.python_version(),
            "target_arch": platform.machine(),
            "target_os": sys.platform,
        },
        "bits": 64,
        "debug": False,
        "maxBsonObjectSize": MAX_USER_SIZE,
        "storageEngines": ["lmdb"],
    }


_FIELDS = old_command({})

COMMAND = Command(
    "buildInfo",
    run,
    needs=OPEN,
    help="Show the version of this server.",
    fields=_FIELDS,
    has_no_session=True,
    aliases=("buildinfo",),
    is_always_allowed=True,
    same_on_router=True,
)
