"""How a pipeline is run: where its history is, when batches begin, how large they may grow."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKPOINT_FOLDER: Final = "_checkpoint"
"""Inside the table; readers of Delta pass over names that begin with an underscore."""

DEFAULT_MAX_ENTRIES: Final = 2_000_000
DEFAULT_MAX_BYTES: Final = 1 << 30
SMALL_BATCH_ENTRIES: Final = 20_000
"""Up to here one task is faster than several: starting a task costs what a thousand entries cost."""
SMALL_BATCH_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """What the user of a pipeline can choose."""

    history: Path
    interval: float | None = 0.0
    """Seconds between the beginnings of two batches, 0 begins each as soon as there is something; None
    takes everything that is there at the start and ends."""
    max_entries: int = DEFAULT_MAX_ENTRIES
    """The most entries of one batch; a batch that fails is done again as a whole."""
    max_bytes: int = DEFAULT_MAX_BYTES
    small_entries: int = SMALL_BATCH_ENTRIES
    """A batch of up to so many entries is one task's; a larger one is divided."""
    keep_seconds: float | None = None
    """Age from which on events are given up; None keeps them forever."""
    keep_bytes: int | None = None
    """Size of the table from which on the oldest events are given up; None keeps them forever."""

    @property
    def checkpoint(self) -> Path:
        """Where Spark notes the batches it planned and finished."""
        return self.history / CHECKPOINT_FOLDER
