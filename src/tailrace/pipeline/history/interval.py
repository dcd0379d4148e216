"""What a task reports of its interval."""

from dataclasses import dataclass

from tailrace.events.interval import Interval
from tailrace.lake.data_file import AddedFile


@dataclass(frozen=True, slots=True)
class BuiltPart:
    """What a task reports to the driver: its piece of a batch, the files it wrote, how far the source was."""

    interval: Interval
    batch: Interval
    promised: int
    files: tuple[AddedFile, ...]
