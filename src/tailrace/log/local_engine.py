"""The local engine: a stream on an archive, computed in this process.

The caller brings the entries, shard by shard and in order, and takes finished events out; waiting, reading
files and serving sockets are its business. What is pushed in one batch or in many gives the same events.

>>> from tailrace.events.scope import Scope
>>> from tailrace.events.stages.plan import Plan
>>> engine = LocalEngine(Plan.open(Scope.parse_ns("shop"), {}))
>>> engine.push("", [])
>>> engine.drain(), engine.done
([], False)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.stage import Row
from tailrace.log.archive_log import ArchiveLog
from tailrace.log.stream import LogStream
from tailrace.log.stream_output import UNLIMITED
from tailrace.sources.archives.entries import entry_time

_ONE_SHARD: Final[Mapping[str, Lookups]] = {"": Lookups()}


class LocalEngine:
    """One stream over the oplogs of its shards.

    With ``from_oldest`` the first entry pushed for a shard is the oldest one its oplog has: a start point
    before it is history that is lost.
    """

    def __init__(
        self, plan: Plan, lookups: Mapping[str, Lookups] = _ONE_SHARD, *, from_oldest: bool = True
    ) -> None:
        self.start_time = plan.start or 0
        """The cluster time from which entries are needed."""
        self._log = ArchiveLog(plan, lookups, from_oldest=from_oldest)
        self._stream = LogStream(plan, self._log, lookups)

    @property
    def done(self) -> bool:
        """Whether the stream was invalidated: all events are out and no more will come."""
        return self._stream.is_done

    @property
    def has_resumed(self) -> bool:
        """Whether the event the client's token names was met; True if the token names none."""
        return self._stream.has_resumed

    def push(self, shard: str, entries: Sequence[bytes]) -> None:
        """Add the next entries of one shard."""
        if entries and not self._stream.is_ended:
            self._log.push(shard, entries)
            self._stream.work_ahead(UNLIMITED)

    def finish(self, shard: str) -> None:
        """Add that a shard has no more entries, so that the others need not wait for it."""
        self._log.finish(shard)
        if not self._stream.is_ended:
            self._stream.work_ahead(UNLIMITED)

    def feed(self, feeds: Mapping[str, Iterator[Sequence[bytes]]], after: int = -1) -> Iterator[str]:
        """Push from the shard that is furthest back, until all are read or the stream is over.

        Yields a shard's name after each of its batches, so that the caller can drain; ``after`` is the
        cluster time at which all feeds begin. No shard is ahead of the others by more than a batch, so few
        events wait for those of other shards. If a damaged file stops one shard, the others have been read
        up to its last good entry, and all events up to there are out.
        """
        positions = dict.fromkeys(feeds, after)
        while positions and not self.done:
            shard = min(positions, key=positions.__getitem__)
            entries = next(feeds[shard], None)
            if entries is None:
                del positions[shard]
                self.finish(shard)
            elif entries:
                positions[shard] = entry_time(entries[-1])
                self.push(shard, entries)
            yield shard

    def drain(self) -> list[bytes]:
        """Return the finished events as BSON; raises the stream's error once those before it are out."""
        return [row.raw for row in self.drain_rows()]

    def drain_rows(self) -> list[Row]:
        """Return the same with what they were made from."""
        return cast("list[Row]", self._stream.take(UNLIMITED, UNLIMITED))  # an archive has no verbatim rows

    @property
    def post_batch_resume_token(self) -> bytes:
        """The position of the stream after what was drained, as the token document clients get."""
        return self._stream.position
