"""The variables that the expressions of a read can refer to with `$$`."""

from collections.abc import Mapping
from typing import Any

from bson import DatetimeMS

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.dispatch.context import Context
from tailrace.query.variables import variables_at


def read_variables(context: Context, let: Mapping[str, Any] | None) -> dict[str, Any]:
    """The times of the command, and the variables of its `let`."""
    clock = context.node.states.clock
    wall = clock.wall.milliseconds()
    # An idle deployment's newest cluster time may be seconds old; the next one is of this second.
    cluster_time = max(clock.now, wall // 1000 << 32 | 1)
    return variables_at(DatetimeMS(wall), to_timestamp(cluster_time), let)
