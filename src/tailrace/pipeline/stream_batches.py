"""Plan queries of ``format("tailrace")``: where a stream begins, its micro-batches, the intervals of tasks.

The offset of a streaming query is the cluster time up to which everything was shown, with the two facts that
a stream carries from batch to batch: whether the event it was resumed after has been found, and whether it
was invalidated. A query that begins with a snapshot also carries which documents were read, and when.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.events.cluster_time import cluster_time, increment_of, seconds_of
from tailrace.events.position import EARLIEST, LATEST, SNAPSHOT
from tailrace.events.recovered.served import check_recorded
from tailrace.events.scope import check_kept
from tailrace.pipeline.options.event_options import StreamRequest
from tailrace.pipeline.streams.event_block import EventBlock
from tailrace.pipeline.streams.event_source import Blocks
from tailrace.pipeline.streams.open_source import open_source
from tailrace.pipeline.streams.planning import StreamInterval, StreamPlanner, rows_of
from tailrace.pipeline.streams.row_condition import ALL_ROWS, accepted
from tailrace.pipeline.streams.snapshot import RANGE_DOCUMENTS, RangeRead, ReadEvents, Snapshot
from tailrace.sources.planning import UNLIMITED

_VERSION: Final = 1
_WITH_SHARDS: Final = 2
_WITH_SNAPSHOT: Final = 3
_BATCH_ROWS: Final = 4096
_RANGES_PER_BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """The work of one task."""

    interval: StreamInterval
    shards: Mapping[str, Any]
    """What it is read from, if that may change."""
    given: Any
    """What the source has found for the interval."""
    earlier: tuple[StreamInterval, ...]
    """What other tasks read of the same batch, up to the interval."""
    snapshot: Snapshot | None = None
    """What was read before: changes that it has are not shown."""


class StreamBatches:
    """Plans the tasks of one stream, and reads their rows; can be pickled."""

    def __init__(self, request: StreamRequest) -> None:
        """Open the source; raises `UsageError` or `CommandError` if the request is wrong."""
        self._request = request
        self._source = open_source(request.source)
        self._spec = request.spec(is_cluster=self._source.is_cluster, release=self._source.release())
        if self._source.is_recorded:
            check_recorded(self._spec.open())
        self._target: int | None = None
        self.condition = ALL_ROWS
        """What rows of a batch query have to meet; the others are not read where that is possible."""

    @cached_property
    def _planner(self) -> StreamPlanner:
        return StreamPlanner(self._spec, self._source)

    @property
    def newest(self) -> int:
        """The cluster time up to which the source has everything."""
        return self._source.promised()

    def close(self) -> None:
        self._source.close()

    def _start(self, default: str) -> int:
        """The cluster time after which the stream begins; raises if its events are not kept from there on."""
        after = self._asked_start(default)
        check_kept(self._request.scope, self._source.kept, after + 1, self._request.chosen)
        return after

    def _asked_start(self, default: str) -> int:
        planner, request = self._planner, self._request
        if planner.start is not None:
            if request.fail_on_data_loss:
                planner.check_start(planner.start)
            return max(planner.start - 1, 0)
        return self._source.promised() if (request.starting or default) == LATEST else self._source.earliest()

    def rows(self, piece: StreamPiece | RangeRead) -> Blocks:
        """Return the rows of a piece in order, some at a time; in a task."""
        if isinstance(piece, RangeRead):
            yield from self._read(piece)
            return
        source = self._source.having(piece.shards).with_given(piece.given)
        try:
            found = rows_of(self._spec, source, piece.interval, self.condition)
            for rows in found if piece.snapshot is None else piece.snapshot.without_read(found):
                if isinstance(rows, EventBlock):
                    yield rows
                    continue
                for start in range(0, len(rows), _BATCH_ROWS):
                    yield rows[start : start + _BATCH_ROWS]
        except CommandError:
            self._raise_earlier_error(piece)
            raise
        finally:
            self._source.close()

    def _read(self, wanted: RangeRead) -> Blocks:
        filters = [stage["$match"] for stage in self._request.pipeline]
        events = ReadEvents(filters, self._spec.open().token_version)
        try:
            yield from accepted(events.rows(self._source.collections, wanted), self.condition)
        finally:
            self._source.close()

    def _raise_earlier_error(self, piece: StreamPiece) -> None:
        """Raise the error of an earlier piece, if there is one.

        Spark fails with the error of whichever task is the first to have one. A stream ends at its first
        error, so a task that fails reads what comes before its piece.
        """
        source = self._source.having(piece.shards)
        for interval in piece.earlier:
            for _ in rows_of(self._spec, source, interval, self.condition):
                pass

    # -- batch queries ------------------------------------------------------------------------------------

    def whole(self) -> Sequence[StreamPiece | RangeRead]:
        """Plan a batch query: all up to what the source has now, or up to an invalidation."""
        if self._request.starting == SNAPSHOT:
            begun, at = self._snapshot(), self._snapshot_time()
            nothing = StreamInterval(at, at, has_resumed=True)
            reads = begun.after_next(UNLIMITED, at).reads_since(begun)
            return reads or self._pieces([nothing], self._source.membership())
        planner, source, request = self._planner, self._source, self._request
        after = self._start(EARLIEST)
        through: int = source.promised()
        if request.ending is not None:
            through = min(through, request.ending)
        shards = source.members_for(source.membership(), after)
        ended = planner.end(after, through)
        planned = planner.intervals(
            after,
            through if ended is None else ended,
            request.partitions or source.suggested_parts(after, through),
            has_resumed=not planner.is_after_event,
            finds_event=planner.finds_event(),
            condition=self.condition,
        )
        # Spark asks for a partition even if there is nothing to read.
        planned = planned or [StreamInterval(after, after, has_resumed=True)]
        return self._pieces(planned, shards)

    # -- streaming queries --------------------------------------------------------------------------------

    def first_offset(self) -> dict[str, Any]:
        """Return where a query without a checkpoint begins."""
        if self._request.starting == SNAPSHOT:
            # Before the collections are listed: one that is created later has an entry after this time.
            begin = self._source.promised()
            return self._offset(begin, has_resumed=True, snapshot=self._snapshot())
        is_live = self._request.source.uri is not None
        after = self._start(LATEST if is_live else EARLIEST)
        return self._offset(after, has_resumed=not self._planner.is_after_event)

    def fix_end(self) -> None:
        """Let the query end with what the source has now."""
        self._target = self._source.promised()

    def next_offset(self, start: dict[str, Any], max_rows: int | None) -> dict[str, Any]:
        """Return the end of the next micro-batch: what is promised, a limit, or an invalidation.

        Without ``max_rows`` there is no limit, also none of bytes.
        """
        if start["ended"]:
            return start
        snapshot = _snapshot_of(start)
        if snapshot is not None and not snapshot.is_complete:
            ranges = self._request.partitions or _RANGES_PER_BATCH
            if max_rows is not None:
                ranges = max(min(ranges, max_rows // RANGE_DOCUMENTS), 1)
            read = snapshot.after_next(ranges, max(self._snapshot_time(), snapshot.settled))
            return {**start, "snapshot": read.to_document()}
        planner, source, request = self._planner, self._source, self._request
        source.remember(start.get("shards", {}))
        after = _time(start)
        through: int = source.promised()
        if self._target is not None:
            # What was read at a later time is complete only there.
            through = min(through, max(self._target, 0 if snapshot is None else snapshot.settled))
        if request.ending is not None:
            through = min(through, request.ending)
        if through <= after:
            return start
        if max_rows is not None:
            limit = source.limited(after, through, max_rows, request.max_bytes or UNLIMITED)
            # The oplogs of shards may begin at different times; a batch ends after the last beginning.
            through = min(max(limit, source.oldest() - 1), through)
        ended = planner.end(after, through)
        if ended is not None:
            through = ended
        has_resumed = start["resumed"] or (
            planner.start is not None and through >= planner.start and planner.finds_event()
        )
        left = None if snapshot is None or through >= snapshot.settled else snapshot
        return self._offset(through, has_resumed=has_resumed, has_ended=ended is not None, snapshot=left)

    def newest_offset(self) -> dict[str, Any]:
        """Return how far the source is."""
        return self._offset(self._source.promised(), has_resumed=True)

    def between(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[StreamPiece | RangeRead]:
        """Plan the tasks of a micro-batch; the same for the same offsets."""
        snapshot, read = _snapshot_of(start), _snapshot_of(end)
        if snapshot is not None and read is not None and not snapshot.is_complete:
            return read.reads_since(snapshot)
        after, through = _time(start), _time(end)
        source, request = self._source, self._request
        shards = source.members_for(end.get("shards", {}), after)
        if source.oldest() > after + 1 and after:
            if request.fail_on_data_loss:
                self._planner.check_start(after + 1)
            after = min(source.oldest() - 1, through)
        planned = self._planner.intervals(
            after,
            through,
            request.partitions or source.suggested_parts(after, through),
            has_resumed=start["resumed"],
            finds_event=end["resumed"],
        )
        return self._pieces(planned, shards, snapshot)

    def _snapshot(self) -> Snapshot:
        request = self._request
        size = min(request.max_entries or RANGE_DOCUMENTS, RANGE_DOCUMENTS)
        return Snapshot.planned(self._source.collections, request.scope, request.chosen, size)

    def _snapshot_time(self) -> int:
        """A cluster time to read at: everything up to it can be read, and the streams will have it."""
        return max(self._source.promised(), self._source.collections.newest_time())

    def _pieces(
        self,
        planned: Sequence[StreamInterval],
        shards: Mapping[str, Any],
        snapshot: Snapshot | None = None,
    ) -> list[StreamPiece]:
        return [
            StreamPiece(
                interval,
                shards,
                self._source.given(interval.after, interval.through),
                _before(planned, number),
                snapshot,
            )
            for number, interval in enumerate(planned)
        ]

    def _offset(
        self, time: int, *, has_resumed: bool, has_ended: bool = False, snapshot: Snapshot | None = None
    ) -> dict[str, Any]:
        offset: dict[str, Any] = {
            "version": _VERSION,
            "clusterTime": {"t": seconds_of(time), "i": increment_of(time)},
            "resumed": has_resumed,
            "ended": has_ended,
        }
        shards = self._source.membership()
        if shards:
            offset |= {"version": _WITH_SHARDS, "shards": shards}
        if snapshot is not None:
            offset |= {"version": _WITH_SNAPSHOT, "snapshot": snapshot.to_document()}
        return offset


def _before(planned: Sequence[StreamInterval], number: int) -> tuple[StreamInterval, ...]:
    """The intervals before one, joined; the one with the event to resume after stays by itself."""
    alone = 0 if planned[0].has_resumed else 1
    if number <= alone:
        return tuple(planned[:number])
    first, last = planned[alone], planned[number - 1]
    return (*planned[:alone], StreamInterval(first.after, last.through, first.has_resumed))


def _snapshot_of(offset: Mapping[str, Any]) -> Snapshot | None:
    found = offset.get("snapshot")
    return None if found is None else Snapshot.of(found)


def _time(offset: Mapping[str, Any]) -> int:
    time = offset["clusterTime"]
    return cluster_time(int(time["t"]), int(time["i"]))
