"""What streams that are alike show next, worked out by the first of them.

Many streams differ in nothing but the place they have come to: same scope, same options, no stages of a user,
no images. From the same place on they show the same rows. A step is what one of them shows of one slice of
the log; the newest steps are kept for the others, up to a size for all streams together.
"""

from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from tailrace.events.stages.stage import Batch, Row
from tailrace.log.verbatim_inserts import InsertRow

AnyRow: TypeAlias = Row | InsertRow

_MAX_BYTES: Final = 16 << 20
_STEP_WEIGHT: Final = 4096
"""What a step counts besides its rows, so that there are never very many"""


class Step(NamedTuple):
    """Some rows, and the cluster time up to which there is nothing else."""

    shown: Batch[AnyRow]
    scanned: int


class Likeness:
    """Streams that are alike, and their steps by the place where they begin."""

    def __init__(self) -> None:
        self.steps: dict[int, Step] = {}


class CommonSteps:
    """The steps of all streams of an event log."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._likenesses: WeakValueDictionary[Hashable, Likeness] = WeakValueDictionary()
        self._kept: deque[tuple[Likeness, int, int]] = deque()

    def of(self, facts: Hashable) -> Likeness:
        """The streams that have these facts in common."""
        likeness = self._likenesses.get(facts)
        if likeness is None:
            likeness = self._likenesses[facts] = Likeness()
        return likeness

    def keep(self, likeness: Likeness, place: int, step: Step) -> None:
        """Keep a step for others, and give up the oldest ones if there is too much."""
        size = _STEP_WEIGHT + sum([len(row.raw) for row in step.shown.items])
        likeness.steps[place] = step
        self._kept.append((likeness, place, size))
        self._bytes += size
        while self._bytes > self._max_bytes:
            oldest, its_place, its_size = self._kept.popleft()
            del oldest.steps[its_place]
            self._bytes -= its_size
