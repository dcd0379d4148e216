"""A piece of time of every oplog, and what a task has made of it."""

from dataclasses import dataclass

from tailrace.lake.data_file import AddedFile


@dataclass(frozen=True, slots=True)
class Interval:
    """The cluster times (after, through] of all shards; one cluster time is never in two of them."""

    after: int
    through: int

    @property
    def name(self) -> str:
        """The same for every attempt at this piece, so that files of a repeated task replace each other.

        >>> Interval(1 << 32, 2 << 32 | 7).name
        '0000000100000000-0000000200000007'
        """
        return f"{self.after:016x}-{self.through:016x}"


@dataclass(frozen=True, slots=True)
class BuiltPart:
    """What a task reports to the driver: its piece of a batch, the files it wrote, how far the source was."""

    interval: Interval
    batch: Interval
    promised: int
    files: tuple[AddedFile, ...]
