"""Settings of a pipeline: where its history is, when batches begin, how large they may be."""

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tailrace.events.stream_release import StreamRelease
from tailrace.namespaces import NamespaceChoice
from tailrace.places import is_object_store, local_path

CHECKPOINT_FOLDER: Final = "_checkpoint"
"""Inside the table; readers of Delta ignore names that begin with an underscore."""

PIECES_PER_CORE: Final = 2
"""More tasks than cores, so that a slow one does not delay the batch."""
_MAX_ENTRIES: Final = 2_000_000
_MAX_BYTES: Final = 1 << 30
_PIECE_ENTRIES: Final = 100_000
_PIECE_BYTES: Final = 32 << 20
"""A batch has room for that much in each task of a cluster."""
_ENTRY_BYTES: Final = 400
"""About what a usual entry has."""
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
    max_entries: int | None = None
    """The most entries of one batch; a batch that fails is repeated as a whole. None for two million, or more
    on a cluster of many cores."""
    max_bytes: int | None = None
    """The most bytes; None for a gigabyte, or more on a cluster of many cores."""
    small_entries: int = SMALL_BATCH_ENTRIES
    """A batch of up to this many entries is one task; a larger one is divided."""
    keep_seconds: float | None = None
    """Age at which events are removed; None for never."""
    keep_bytes: int | None = None
    """Size of the table above which the oldest events are removed; None for no limit."""

    kept: NamespaceChoice | None = None
    """The namespaces whose events the history has; None for those that it has already, or for all."""
    backfill: bool = False
    """Whether events of namespaces that are kept from now on are added from the oplog, too."""

    release: StreamRelease | None = None
    """The server release of a history that is created; None for that of the source."""

    def limits(self, cores: int) -> tuple[int, int]:
        """Return the most entries and bytes of one batch, for the cores of all executors together."""
        pieces = cores * PIECES_PER_CORE
        return (
            self.max_entries or max(_MAX_ENTRIES, pieces * _PIECE_ENTRIES),
            self.max_bytes or max(_MAX_BYTES, pieces * _PIECE_BYTES),
        )

    @property
    def piece_bytes(self) -> int:
        """What a task has at least if a batch is divided: about as much as a batch that is not."""
        return self.small_entries * _ENTRY_BYTES

    @property
    def checkpoint(self) -> Path:
        """Where Spark stores which batches it planned and finished.

        That of a history in an object store is on the driver's disk: the table decides, so it may be lost.
        """
        if is_object_store(self.history):
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            return cache / "tailrace" / "checkpoints" / checkpoint_name(self.history)
        return Path(local_path(self.history)) / CHECKPOINT_FOLDER


def checkpoint_name(history: str | Path) -> str:
    """The name of the folder with a history's checkpoint, among those of others."""
    return sha256(str(history).encode()).hexdigest()[:32]
