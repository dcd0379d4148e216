"""The oplog of a deployment that shows only its change streams: entries are recovered from its events.

It is read like an oplog. What the stream does not show is not there. A time that the source has reached
without an event has an entry that leads to none, so a reader knows how far it has come.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import BEGINNING, ClusterTime
from tailrace.events.entry_mark import EntryMark
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.recovered.entries import (
    EntryRecovery,
    mark_of,
    noop_entry,
)
from tailrace.events.recovered.grouping import EventGroups
from tailrace.events.recovered.served import recorded_identity
from tailrace.events.stream_release import StreamRelease
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.driver_errors import driver_errors
from tailrace.sources.deployments.shard_oplog import ShardOplog
from tailrace.sources.recorded.event_cursor import event_cursor

_AWAIT_MS: Final = 100
"""How long a member waits for events before it answers that there are none, and up to which time."""
_FIRST: Final = 1 << 32
"""A time before all others."""
UNKNOWN_DIGEST: Final = -1
"""That of the mark of a time whose events have no entry."""
_SMALL_BATCH: Final = 256
"""Events of a batch that is read for a piece of the log."""


class StreamOplog(ShardOplog):
    """See `ShardOplog`; of a replica set only."""

    _release: StreamRelease | None = None

    def _known_release(self) -> StreamRelease:
        """The release when the stream was followed last: an upgrade breaks connections."""
        if self._release is None:
            self._release = self.release()
        return self._release

    @classmethod
    def of(cls, oplog: ShardOplog) -> "StreamOplog":
        """Return the stream of the deployment that has an oplog."""
        return cls(oplog.client, oplog.uri, oplog._owner)

    def selected(self) -> "StreamOplog":
        found = super().selected()
        return self if found is self else StreamOplog.of(found)

    def first(self) -> OplogEntry | None:
        """None: a stream does not show how far back it could begin; see `check_start`."""
        return None

    def check_start(self, start: int) -> None:
        """Raise ChangeStreamHistoryLost (286) if a stream cannot begin at a cluster time."""
        release = self._known_release()
        with driver_errors(self.uri, rights.STREAMS), event_cursor(self.client, release, 1) as cursor:
            cursor.open(start, max(min(start, self.majority_time()), _FIRST))

    def oldest_since(self, known: ClusterTime | None) -> ClusterTime:
        """Return the first second from which on a stream can begin; 0 if the oplog was never truncated.

        ``known`` is what it was before.
        """
        if known is not None and self.can_start(max(known, _FIRST)):
            return known
        if self.can_start(_FIRST):
            return BEGINNING
        missing, there = _FIRST >> 32, (self.majority_time() >> 32) + 1
        back = 1
        while there - back > missing and self.can_start((there - back) << 32):
            there -= back
            back *= 2
        missing = max(missing, there - back)
        while there - missing > 1:
            middle = (missing + there) // 2
            if self.can_start(middle << 32):
                there = middle
            else:
                missing = middle
        return ClusterTime(there << 32)

    def can_start(self, start: int) -> bool:
        """Return whether a stream can begin at a cluster time."""
        try:
            self.check_start(start)
        except CommandError as error:
            if error.code != ErrorCode.ChangeStreamHistoryLost:
                raise
            return False
        return True

    def replica_set_id(self) -> str:
        """Return the name of the set, which needs no rights, as one whose stream is read."""
        return recorded_identity(str(self.hello()["setName"]))

    def newest(self) -> bytes | None:
        return self._entry_at(self.majority_time())

    def entries(
        self,
        after: int,
        through: int,
        condition: EntryCondition,  # noqa: ARG002 - it may let too much through
        batch_bytes: int | None = None,
    ) -> Iterator[Sequence[bytes]]:
        member = self.selected()
        release = self._known_release()
        most = None if batch_bytes is None else _SMALL_BATCH
        with (
            driver_errors(self.uri, rights.STREAMS),
            event_cursor(member.client, release, most) as cursor,
        ):
            groups = EventGroups(EntryRecovery(release), after, through)
            batch = cursor.open(after + 1, through)
            while batch.events:
                yield groups.add(batch.events)
                if groups.is_past:
                    break
                batch = cursor.next()
            yield groups.rest()

    def follow(self, after: EntryMark) -> Iterator[Sequence[bytes]]:
        member = self.selected()
        release = self._release = self.release()
        with driver_errors(self.uri, rights.STREAMS), event_cursor(member.client, release) as cursor:
            reached = after.time
            groups = EventGroups(EntryRecovery(release), reached)
            batch = cursor.open(reached, reached)
            while True:
                found = groups.add(batch.events)
                if not batch.events or groups.is_rest_alone(release):
                    found += groups.rest()
                if not groups.is_open and batch.position > max(reached, _last_time(found)):
                    found.append(noop_entry(batch.position))
                reached = max(reached, _last_time(found))
                yield found
                if not cursor.is_open:
                    return
                batch = cursor.next() if groups.is_open else cursor.next(_AWAIT_MS)

    def entry(self, through: int, ts: int, term: int) -> bytes | None:  # noqa: ARG002 - all have the same
        return self._entry_at(ts) if ts <= through else None

    def mark_of(self, raw: bytes) -> EntryMark:
        return mark_of(raw)

    def has_diverged(self, mark: EntryMark) -> bool:
        if mark.digest == UNKNOWN_DIGEST:
            return False
        if not self._reaches(mark.time):
            return True
        try:
            return mark_of(self._entry_at(mark.time)) != mark
        except CommandError as error:
            if error.code != ErrorCode.ChangeStreamHistoryLost:
                raise
            return False  # the source has removed it, which is found next

    def _entry_at(self, ts: int) -> bytes:
        """The entry of a cluster time that the source has reached."""
        for entries in self.entries(ts - 1, ts, EVERYTHING):
            for entry in entries:
                return entry
        return noop_entry(ts)


def _last_time(entries: Sequence[bytes]) -> int:
    return entry_time(entries[-1]) if entries else 0
