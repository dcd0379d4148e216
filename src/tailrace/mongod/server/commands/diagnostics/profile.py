"""`profile`: set what the profiler of a database writes to `system.profile`."""

import ctypes
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights, either, right
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.admin.profile_filter import ProfileFilter
from tailrace.mongod.server.admin.profiler import ALL, OFF, Level
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext

_UNSET: Final = "unset"
_NOTE: Final = (
    "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log "
    "lines."
)


async def run(context: MemberContext) -> Reply:
    """Return the settings as they were; a level below 0 or above 2 leaves the level as it is."""
    arguments = context.arguments()
    wanted = arguments.integer(context.name)
    slow_ms = arguments.integer("slowms", None)
    sample_rate = arguments.number("sampleRate", None)
    if sample_rate is not None and not 0 <= sample_rate <= 1:
        raise CommandError(ErrorCode.BadValue, "'sampleRate' must be between 0.0 and 1.0 inclusive")
    profiler, database = context.node.profiler, context.database
    before = profiler.of(database)
    chosen = _filter(arguments, before.filter)
    reply: dict[str, Any] = {
        "was": before.level,
        "slowms": profiler.slow_ms,
        "sampleRate": float(profiler.sample_rate),
    }
    if before.filter is not None:
        reply["filter"] = before.filter.shown
    if before.filter is not None or arguments.has("filter"):
        reply["note"] = _NOTE
    if slow_ms is not None:
        profiler.slow_ms = ctypes.c_int32(slow_ms).value
    if sample_rate is not None:
        profiler.sample_rate = sample_rate
    level = wanted if OFF <= wanted <= ALL else before.level
    await profiler.set(database, Level(level, chosen))
    return reply


def _filter(arguments: Arguments, before: ProfileFilter | None) -> ProfileFilter | None:
    value = arguments.value("filter", None)
    if value is None:
        return before
    if value == _UNSET:
        return None
    if not isinstance(value, dict):
        raise CommandError(ErrorCode.BadValue, f"Expected an object, or the string '{_UNSET}'.")
    return ProfileFilter(value)


def _needs(context: MemberContext) -> Rights:
    """To see the level, the right to read what was profiled is enough."""
    command, change = context.command, right(namespace(context.database), "enableProfiler")
    if command.get(context.name) == -1 and not {"slowms", "sampleRate", "filter"} & command.keys():
        return (either(change, right(namespace(context.database, "system.profile"), "find")),)
    return (change,)


COMMAND = Command("profile", run, needs=_needs, help="Set what the profiler of a database writes.")
