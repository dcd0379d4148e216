"""Plan queries of ``format("tailrace.oplog")``: positions, batches, and the intervals of tasks.

The same interval of the same oplogs gives the same entries, however often and wherever it is read: intervals
are cluster times, and none goes beyond what every shard has promised.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.events.cluster_time import END_OF_TIME, in_words
from tailrace.events.position import EARLIEST, LATEST, Position
from tailrace.events.stages.check_resumability import history_lost
from tailrace.pipeline.options.oplog_options import OplogOptions
from tailrace.sources.planning import Planner
from tailrace.sources.source import OplogSource

_LOG: Final = logging.getLogger("tailrace.oplog")
_MEMBERS: Final = "members"


@dataclass(frozen=True, slots=True)
class ShardInterval:
    """An interval of one shard: the work of one task."""

    shard: str
    after: int
    through: int
    members: Mapping[str, Any]
    """The shards there were, if they may change."""


class OplogBatches:
    """Plans the tasks of a batch query, or the micro-batches of a streaming query."""

    def __init__(self, source: OplogSource, options: OplogOptions) -> None:
        self._source = source
        self._options = options
        self._planner = Planner(source)
        self._target: int | None = None

    def whole(self, shards: frozenset[str] | None, after: int, through: int) -> list[ShardInterval]:
        """Plan a batch query, of some shards only and inside an interval."""
        source, options = self._source, self._options
        start = options.start(source, EARLIEST)
        end = options.end(source)
        start = self._checked(source, start)
        names = [name for name in source.shards() if shards is None or name in shards]
        start = Position({name: max(start.times[name], after) for name in names})
        end = Position({name: min(end.times[name], through) for name in names})
        return self._intervals(source, start, end, source.membership())

    def first_offset(self) -> dict[str, Any]:
        """Return where a streaming query without a checkpoint begins."""
        return _offset(self._options.start(self._source, LATEST), self._source.membership())

    def fix_end(self) -> None:
        """Let a streaming query end with what the source has now."""
        self._target = self._source.promised()

    def next_offset(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Return the end of the next micro-batch."""
        source = self._source
        source.remember(start.get(_MEMBERS, {}))
        through = source.promised() if self._target is None else self._target
        known = Position.of(start, "the checkpoint's offset")
        begin = _unfinished(source, known)
        after = self._checked(source, begin).earliest
        if is_limited and through > after:
            limits = self._options.max_entries, self._options.max_bytes
            through = self._planner.batch_end(after, through, *limits)
        ends = {name: max(time, source.shard_end(name, through)) for name, time in begin.times.items()}
        return _offset(Position({**known.times, **ends}), source.membership())

    def newest_offset(self) -> dict[str, Any]:
        """Return how far the source is."""
        return Position.at(self._source.shards(), self._source.promised()).to_document()

    def between(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ShardInterval]:
        """Plan the tasks of a micro-batch."""
        members = self._source.members_for(end.get(_MEMBERS, {}), 0)
        source = self._source.having(members)
        begin = self._checked(source, _unfinished(source, Position.of(start)))
        stop = Position.of(end).of_shards(begin.times)
        return self._intervals(source, begin, stop, members)

    def _checked(self, source: OplogSource, start: Position) -> Position:
        """The start; or the oldest entries that are left, if data loss is allowed."""
        times = dict(start.times)
        for shard, oldest in source.oldest_of(start.times).items():
            after = start.times[shard]
            if oldest > after + 1:
                if self._options.fail_on_data_loss:
                    raise history_lost(after)
                times[shard] = oldest - 1
                _LOG.warning(
                    "entries after %s are gone from the oplog%s; continuing with its oldest, %s",
                    in_words(after),
                    f" of {shard}" if shard else "",
                    in_words(oldest),
                )
        return Position(times)

    def _intervals(
        self, source: OplogSource, start: Position, end: Position, members: Mapping[str, Any]
    ) -> list[ShardInterval]:
        after, through = start.earliest, max(end.times.values(), default=0)
        if not start.times or through <= after:
            return []
        planner = Planner(source)
        parts = self._options.partitions or planner.suggested_parts(after, through)
        intervals = planner.intervals(after, through, parts)
        found = [
            ShardInterval(shard, max(begin, start.times[shard]), min(stop, end.times[shard]), members)
            for shard in start.times
            for begin, stop in intervals
        ]
        return [part for part in found if part.after < part.through]


def _offset(position: Position, members: Mapping[str, Any]) -> dict[str, Any]:
    return {**position.to_document(), _MEMBERS: members} if members else position.to_document()


def _unfinished(source: OplogSource, known: Position) -> Position:
    """The position in the shards that may have more entries; a new shard begins at the earliest time."""
    shards = [
        name for name in source.shards() if source.shard_end(name, END_OF_TIME) > known.times.get(name, 0)
    ]
    return Position({name: time for name, time in known.times.items() if name in shards}).of_shards(shards)
