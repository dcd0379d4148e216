"""The variables of a user's stages: the builtin ones, and those of the command's `let`.

The expressions of `let` are computed once, when the stream is opened, without a document, in their order;
each may use those before it.
"""

from collections.abc import Mapping
from time import time
from typing import Any, Final

from bson import DatetimeMS, Timestamp

from tailrace.errors import CommandError
from tailrace.query.expressions import parse_expression
from tailrace.query.expressions.scope import check_variable_write
from tailrace.query.missing import MISSING

_NOT_AVAILABLE: Final = 51144


def stream_variables(let: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All variables by name.

    `CLUSTER_TIME` is the time of opening, like `NOW`: an oplog that is replayed has no clock.

    >>> stream_variables({"low": 3, "high": {"$add": ["$$low", 4]}})["high"]
    7
    """
    now = time()
    return variables_at(DatetimeMS(int(now * 1000)), Timestamp(int(now), 1), let)


def variables_at(
    now: DatetimeMS, cluster_time: Timestamp, let: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Like `stream_variables`, with the given time."""
    variables: dict[str, Any] = {"NOW": now, "CLUSTER_TIME": cluster_time}
    for name, spec in (let or {}).items():
        check_variable_write(name)
        compute = parse_expression(spec, variables=frozenset(variables))
        try:
            value = compute(dict(variables))
        except CommandError as error:
            if error.code != _NOT_AVAILABLE:
                raise
            raise CommandError(
                4890500, f"the variable {name} of let asks for a field, but there is no document yet"
            ) from None
        if value is not MISSING:
            variables[name] = value
    return variables
