"""Count what a mirror does."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tailrace.events.cluster_time import seconds_of, to_pair


@dataclass(slots=True)
class MirrorProgress:
    through: int = 0
    """The cluster time up to which all changes were applied."""
    promised: int = 0
    """How far the source was when it was asked the last time."""
    documents: int = 0
    """Documents that were copied."""
    estimated: int = 0
    """About how many are to be copied, with those that were."""
    changes: int = 0
    batches: int = 0
    began: float = field(default_factory=time.monotonic)
    changed: Callable[["MirrorProgress"], None] = lambda _: None
    """Called after every step."""

    @property
    def lag_seconds(self) -> int:
        """How many seconds of the source are not in the tables yet."""
        return max(0, seconds_of(self.promised) - seconds_of(self.through))

    @property
    def copy_rate(self) -> float:
        """Documents copied in a second, since the beginning."""
        return self.documents / max(time.monotonic() - self.began, 0.001)

    def planned(self, estimated: int) -> None:
        self.estimated += estimated
        self.changed(self)

    def copied(self, documents: int) -> None:
        self.documents += documents
        self.changed(self)

    def applied(self, changes: int, *, through: int) -> None:
        self.changes += changes
        self.batches += 1
        self.through = through
        self.changed(self)

    def figures(self) -> dict[str, Any]:
        """Return the figures under the names that the log has for them."""
        return {
            "documents": self.documents,
            "changes": self.changes,
            "batches": self.batches,
            "through": to_pair(self.through),
            "lagSeconds": self.lag_seconds,
        }
