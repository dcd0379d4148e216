"""The variables that the expressions of a write command can refer to with `$$`."""

from collections.abc import Mapping
from typing import Any

from bson import DatetimeMS, Timestamp

from tailrace.model.cluster_time import to_timestamp
from tailrace.query.expressions import environment, parse_expression
from tailrace.query.missing import MISSING
from tailrace.store.unit import Unit


class CommandTime:
    """The moment of a command: `$$NOW`, `$$CLUSTER_TIME` and what `$currentDate` sets."""

    def __init__(self, unit: Unit) -> None:
        self.now = DatetimeMS(unit.wall)
        # An idle deployment's newest cluster time may be seconds old; the next one will be of this second.
        newest = max(unit.clock.now, unit.wall // 1000 << 32 | 1)
        self.cluster_time: Timestamp = to_timestamp(newest)


def command_variables(time: CommandTime, let: Mapping[str, Any] | None) -> dict[str, Any]:
    """The times and the values of `let`, whose expressions see no document."""
    variables: dict[str, Any] = {"NOW": time.now, "CLUSTER_TIME": time.cluster_time}
    for name, spec in (let or {}).items():
        value = parse_expression(spec, variables=frozenset(variables))(environment({}, variables))
        variables[name] = None if value is MISSING else value
    return variables
