"""Settings of a pipeline: where its history is, when batches begin, how large they may be."""

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tailrace.events.stream_release import StreamRelease
from tailrace.places import is_object_store, local_path

CHECKPOINT_FOLDER: Final = "_checkpoint"
"""Inside the table; readers of Delta ignore names that begin with an underscore."""

DEFAULT_MAX_ENTRIES: Final = 2_000_000
DEFAULT_MAX_BYTES: Final = 1 << 30
SMALL_BATCH_ENTRIES: Final = 20_000
"""Up to this size one task is faster than several: starting a task costs as much as a thousand entries."""
SMALL_BATCH_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    history: str | Path
    """A folder, or the URL of an object store."""
    interval: float | None = 0.0
    """Seconds between the beginnings of two batches; with 0 each begins when there is something new. None
    takes everything that is there at the start and ends."""
    max_entries: int = DEFAULT_MAX_ENTRIES
    """The most entries of one batch; a batch that fails is repeated as a whole."""
    max_bytes: int = DEFAULT_MAX_BYTES
    small_entries: int = SMALL_BATCH_ENTRIES
    """A batch of up to this many entries is one task; a larger one is divided."""
    keep_seconds: float | None = None
    """Age at which events are removed; None for never."""
    keep_bytes: int | None = None
    """Size of the table above which the oldest events are removed; None for no limit."""

    release: StreamRelease | None = None
    """The server release of a history that is created; None for that of the source."""

    @property
    def checkpoint(self) -> Path:
        """Where Spark stores which batches it planned and finished.

        That of a history in an object store is on the driver's disk: the table decides, so it may be lost.
        """
        if is_object_store(self.history):
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            return cache / "tailrace" / "checkpoints" / sha256(str(self.history).encode()).hexdigest()[:32]
        return Path(local_path(self.history)) / CHECKPOINT_FOLDER
