"""Divide a stream into intervals that can be computed independently.

A stream carries little from one interval to the next: whether the event it was resumed after was found, and
whether it was invalidated. Both are determined when intervals are planned, so that intervals can run at the
same time, on different machines, and again after a failure.
"""

from dataclasses import dataclass
from itertools import pairwise

from tailrace.errors import CommandError
from tailrace.events.interval import Interval
from tailrace.events.scope import ScopeKind
from tailrace.events.stages.check_resumability import history_lost
from tailrace.pipeline.streams.event_source import Blocks, EventSource
from tailrace.pipeline.streams.row_condition import ALL_ROWS, RowCondition, accepted
from tailrace.pipeline.streams.stream_spec import StreamSpec, goes_on_after


@dataclass(frozen=True, slots=True)
class StreamInterval(Interval):
    """An interval of one stream."""

    has_resumed: bool
    """Whether the stream has passed its start before this interval, and the event named there was found."""


def rows_of(
    spec: StreamSpec, source: EventSource, interval: StreamInterval, condition: RowCondition = ALL_ROWS
) -> Blocks:
    """Return the stream's rows of an interval that meet a condition."""
    plan = spec.open()
    if interval.has_resumed:
        plan = goes_on_after(plan, interval.after)
        return source.run(plan, interval.after, interval.through, condition=condition).blocks()
    # It reads everything until the event to resume after.
    return accepted(source.run(plan, interval.after, interval.through).rows(), condition)


class StreamPlanner:
    """Plans one stream on one source, in the driver."""

    def __init__(self, spec: StreamSpec, source: EventSource) -> None:
        self._spec = spec
        self._source = source
        plan = spec.open()
        token = plan.start_token
        self.start = plan.start
        """The cluster time at which the user's options start; None if they do not say."""
        self.is_after_event = token is not None and not token.is_high_water_mark
        """Whether they name an event, which then has to be there."""
        self._is_after_invalidate = token is not None and token.from_invalidate

    def check_start(self, start: int) -> None:
        """Raise 286 if the source no longer has everything from a cluster time on."""
        if self._source.oldest() > start:
            raise history_lost(start)

    def finds_event(self) -> bool:
        """Return whether the event to resume after is there.

        If it is not, the error comes with the first row that follows.
        """
        if not self.is_after_event or self.start is None:
            return True
        run = self._source.run(self._spec.open(), self.start - 1, self.start)
        try:
            for _ in run.rows():
                pass
        except CommandError:
            return False  # the task of this interval fails with the same error, in its place
        return run.has_resumed

    def end(self, after: int, through: int) -> int | None:
        """Return the cluster time in an interval at which the stream is invalidated, if it is."""
        if self._spec.scope.kind is ScopeKind.CLUSTER or through <= after:
            return None
        plan = self._spec.without_pipeline().open()
        if self.start is None or after >= self.start or not self._is_after_invalidate:
            plan = goes_on_after(plan, after)
        run = self._source.run(plan, after, through, commands_only=True)
        last = None
        try:
            for rows in run.rows():
                last = rows[-1].cluster_time
        except CommandError:
            return None  # as above
        return last if run.is_invalidated else None

    def intervals(
        self,
        after: int,
        through: int,
        parts: int,
        *,
        has_resumed: bool,
        finds_event: bool,
        condition: RowCondition = ALL_ROWS,
    ) -> list[StreamInterval]:
        """Divide an interval into pieces, as far as rows may meet a condition.

        The piece with the event to resume after is one cluster time: what follows it is shown as if nothing
        had been before.
        """
        planned: list[StreamInterval] = []
        start = self.start
        if not has_resumed and start is not None and after < start <= through:
            planned.append(StreamInterval(after, start, has_resumed=False))
            after = start
            has_resumed = finds_event
        if has_resumed:
            after, through = max(after, condition.after), min(through, condition.through)
            after, through = self._source.narrowed(after, through, condition)
        if after < through:
            # Shards' archives may begin at different times: no piece begins before all of them have.
            begun = self._source.oldest() - 1
            inner = [time for time in self._source.split(after, through, parts) if time >= begun]
            cuts = [after, *inner, through]
            planned += [StreamInterval(first, last, has_resumed) for first, last in pairwise(cuts)]
        return planned
