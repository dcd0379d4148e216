"""`replSetStepDown`: make the primary a secondary for some time.

Another member is elected, if there is one. The only member of a set is elected again when the time is over,
in a new term; until then it refuses writes, and reads that need a primary. A mongod without electable
secondaries steps down only with `force`; here it always does, because tests need it.
"""

from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.replica_set.replica_set_config import check_replica_set

_DEFAULT_SECONDS: Final = 60
_DEFAULT_CATCH_UP_SECONDS: Final = 10


async def run(context: MemberContext) -> Reply:
    """The reply is sent at once, and the connection stays open."""
    arguments = context.arguments()
    seconds = arguments.integer(context.name, 0)
    force = arguments.boolean("force", False)
    catch_up = arguments.integer("secondaryCatchUpPeriodSecs", 0 if force else _DEFAULT_CATCH_UP_SECONDS)
    arguments.finish()
    check_replica_set(context.node)
    if seconds < 0:
        raise CommandError(ErrorCode.BadValue, "stepdown period must be a positive integer")
    seconds = seconds or _DEFAULT_SECONDS
    if catch_up < 0:
        reason = "secondaryCatchUpPeriodSecs period must be a positive or absent"
        raise CommandError(ErrorCode.BadValue, reason)
    if seconds < catch_up:
        reason = "stepdown period must be longer than secondaryCatchUpPeriodSecs"
        raise CommandError(ErrorCode.BadValue, reason)
    await context.node.step_down(seconds)
    return {}


COMMAND = Command(
    "replSetStepDown",
    run,
    needs=on_cluster("replSetStateChange"),
    help="Make the primary a secondary for some time.",
    admin_only=True,
)
