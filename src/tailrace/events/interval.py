"""An interval of cluster time, the unit in which oplogs and histories are read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """The cluster times ``(after, through]`` of all shards.

    Consecutive intervals share no cluster time, so an entry is in exactly one of them.
    """

    after: int
    through: int

    @property
    def name(self) -> str:
        """A name that depends on the interval alone, so that a repeated task replaces its own files.

        >>> from tailrace.events.cluster_time import cluster_time
        >>> Interval(cluster_time(1), cluster_time(2, 7)).name
        '0000000100000000-0000000200000007'
        """
        return f"{self.after:016x}-{self.through:016x}"
