"""`getParameter`: show server parameters and fail points."""

from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_cluster
from tailrace.mongod.server.admin.parameters import PARAMETERS, Parameters
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import Fields, is_generic, old_command
from tailrace.mongod.server.dispatch.kinds import LOOSE_FLAG, TEXT, is_true

_FAIL_POINT: Final = "failpoint."
_NO_CODE: Final = 0
_CHOICE: Final = Fields(
    {"showDetails": LOOSE_FLAG, "allParameters": LOOSE_FLAG, "setAt": TEXT}, since={"setAt": ((8, 0, 0),)}
)


async def run(context: Context) -> Reply:
    """The parameters that the command names as its fields, or all."""
    command, parameters = context.command, context.parameters
    wanted = command[context.name]
    if isinstance(wanted, dict):
        _CHOICE.check(context.name, wanted, context.node.release)
        details, everything = is_true(wanted.get("showDetails")), is_true(wanted.get("allParameters"))
    else:
        details, everything = False, wanted == "*"
    if everything:
        return {name: _shown(parameters, name, details=details) for name in parameters.all()}
    found = {}
    for name in command:
        if name == context.name or is_generic(name, context.node.release):
            continue
        if name.startswith(_FAIL_POINT) and name.removeprefix(_FAIL_POINT) in context.node.fail_points.all():
            found[name] = context.node.fail_points[name.removeprefix(_FAIL_POINT)].to_document()
        elif parameters.get(name) is not None:
            found[name] = _shown(parameters, name, details=details)
    if not found:
        raise CommandError(_NO_CODE, "no option found to get")
    return found


def _shown(parameters: Parameters, name: str, *, details: bool) -> Any:
    value = parameters.get(name)
    if not details:
        return value
    parameter = PARAMETERS.get(name)
    return {
        "value": value,
        "settableAtRuntime": parameter is not None and parameter.settable_at_runtime,
        "settableAtStartup": parameter is not None,
    }


_FIELDS = old_command({})

COMMAND = Command(
    "getParameter",
    run,
    needs=on_cluster("getParameter"),
    help="Show server parameters.",
    fields=_FIELDS,
    admin_only=True,
    same_on_router=True,
)
