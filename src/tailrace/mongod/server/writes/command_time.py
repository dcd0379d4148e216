"""The time of a write command, for its expressions."""

from typing import Protocol

from bson import DatetimeMS, Timestamp

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.store.clock import ClusterClock


class Moment(Protocol):
    """The unit that a command writes in, as a source of time."""

    wall: int
    """Milliseconds since 1970."""

    @property
    def clock(self) -> ClusterClock:
        """The source of cluster times."""


class CommandTime:
    """`$$NOW`, `$$CLUSTER_TIME` and the value of `$currentDate`, the same for all statements of a command."""

    def __init__(self, unit: Moment) -> None:
        self.now = DatetimeMS(unit.wall)
        # An idle deployment's newest cluster time may be seconds old; the next one is of this second.
        newest = max(unit.clock.now, unit.wall // 1000 << 32 | 1)
        self.cluster_time: Timestamp = to_timestamp(newest)
        self.variables = {"NOW": self.now, "CLUSTER_TIME": self.cluster_time}
