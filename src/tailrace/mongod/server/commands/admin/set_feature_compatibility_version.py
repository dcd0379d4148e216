"""`setFeatureCompatibilityVersion`: only the version of the presented release is accepted."""

from typing import Final

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.emulation.release import CONFIRMED_VERSIONS

_INVALID: Final = 4926900
_NOT_CONFIRMED: Final = 7369100


async def run(context: Context) -> Reply:
    arguments = context.arguments()
    wanted = arguments.text(context.name)
    release = context.node.release
    needs_confirmation = release.has(CONFIRMED_VERSIONS)
    is_confirmed = needs_confirmation and arguments.boolean("confirm", False)
    arguments.finish()
    if wanted != release.series:
        reason = f"Invalid feature compatibility version value '{wanted}', expected '{release.series}'."
        raise CommandError(_INVALID, reason)
    if needs_confirmation and not is_confirmed:
        reason = "Once you have upgraded, you will not be able to downgrade; re-run with 'confirm: true'."
        raise CommandError(_NOT_CONFIRMED, reason)
    return {}


COMMAND = Command(
    "setFeatureCompatibilityVersion",
    run,
    needs=on_cluster("setFeatureCompatibilityVersion"),
    help="Set the feature compatibility version.",
    admin_only=True,
    is_write=True,
    same_on_router=True,
)
