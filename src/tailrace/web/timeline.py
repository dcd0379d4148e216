"""Event rates over time, from counters: the last half hour by sample, the last day by minute."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SERIES: Final = ("insert", "update", "delete", "delivered", "stored")
"""Changes by kind, events that streams received, and rows that the pipeline of this process stored."""
_CHANGES: Final = ("insert", "update", "delete")
_SAMPLES: Final = 900
_MINUTES: Final = 24 * 60
_MINUTE: Final = 60
_SHORTEST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Point:
    """The numbers of events of an interval that ends at a moment."""

    time: float
    seconds: float
    counts: tuple[int, ...]
    """In the order of `SERIES`."""

    def to_row(self) -> list[float]:
        """The end of the interval in milliseconds since 1970, then events a second, by series."""
        rates = [round(count / self.seconds, 3) for count in self.counts]
        return [round(self.time * 1000), *rates]


class Timeline:
    def __init__(self) -> None:
        self.samples: deque[Point] = deque(maxlen=_SAMPLES)
        self.minutes: deque[Point] = deque(maxlen=_MINUTES)
        self._last: tuple[float, Mapping[str, int]] | None = None
        self._open: list[Point] = []

    def add(self, now: float, counters: Mapping[str, int]) -> Point | None:
        """Take the counters of a moment; returns the point since the last ones, unless that is too short.

        A counter that is smaller than before began again: a node was restarted.
        """
        if self._last is not None and now - self._last[0] < _SHORTEST_SECONDS:
            return None
        last, self._last = self._last, (now, dict(counters))
        if last is None:
            return None
        then, before = last
        counts = tuple(
            max(counters[name] - before[name], 0) if name in counters and name in before else 0
            for name in SERIES
        )
        point = Point(now, now - then, counts)
        self.samples.append(point)
        self._add_to_minute(point)
        return point

    def _add_to_minute(self, point: Point) -> None:
        if self._open and self._open[0].time // _MINUTE != point.time // _MINUTE:
            self.minutes.append(_joined(self._open))
            self._open = []
        self._open.append(point)

    def rows(self, seconds: float) -> list[list[float]]:
        """The points of the last seconds: by sample as far as these go back, before that by minute."""
        newest = self.samples[-1].time if self.samples else 0.0
        oldest = self.samples[0].time if self.samples else 0.0
        begin = newest - seconds
        minutes = [point for point in self.minutes if begin <= point.time < oldest]
        samples = [point for point in self.samples if point.time >= begin]
        return [point.to_row() for point in [*minutes, *samples]]

    def changes_since(self, moment: float) -> int:
        """How many changes there were after a moment, as far as points go back."""
        kinds = [SERIES.index(name) for name in _CHANGES]
        return sum(point.counts[kind] for point in self.samples if point.time > moment for kind in kinds)


def _joined(points: list[Point]) -> Point:
    counts = tuple(sum(column) for column in zip(*(point.counts for point in points), strict=True))
    return Point(points[-1].time, sum(point.seconds for point in points), counts)
