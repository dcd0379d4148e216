"""States of the store that are kept for readers who want one moment: read concern `snapshot`.

A client that reads at one moment names it by its cluster time in later commands. The states that were read
last are therefore kept for a while; an older one is gone for good, because the store keeps no history.
"""

from typing import TYPE_CHECKING, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import in_words
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.reader import Snapshot, State

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

_KEPT_SECONDS: Final = 60.0
_MOST_KEPT: Final = 32


class PinnedSnapshot:
    """A state and its time; closed when nobody uses it and it was not asked for lately."""

    def __init__(self, reader: State, time: int, now: float) -> None:
        self.reader = reader
        self.time = time
        """The cluster time of its newest entry."""
        self.last_use = now
        self.users = 0

    def release(self) -> None:
        """One user less."""
        self.users -= 1


class SnapshotHistory:
    """The states that are kept."""

    def __init__(self, wall: WallClock) -> None:
        self._wall = wall
        self._kept: list[PinnedSnapshot] = []

    async def pin(self, context: "Context") -> PinnedSnapshot:
        """The state that a command with the read concern `snapshot` reads; to be released."""
        server = context.server
        wanted = context.read_concern.at_cluster_time
        if wanted is not None and wanted > server.store.last_committed:
            check_not_ahead("atClusterTime", wanted, server.store.clock.now)
            # Behind this entry nothing can be written any more that belongs to the moment asked for.
            await server.write_no_op({"msg": "noop write for atClusterTime read concern"})
        newest = self._newest(server.store.snapshot())
        return self._used(newest if wanted is None else self._at(wanted, newest))

    def _used(self, found: PinnedSnapshot) -> PinnedSnapshot:
        """Count another user."""
        found.users += 1
        found.last_use = self._wall.seconds()
        self.reap()
        return found

    def _newest(self, reader: State) -> PinnedSnapshot:
        time = reader.newest_time()
        same = self._kept_at(time)
        if same is not None:
            reader.close()
            return same
        return self._keep(reader, time)

    def _kept_at(self, time: int) -> PinnedSnapshot | None:
        return next((kept for kept in self._kept if kept.time == time), None)

    def _keep(self, reader: State, time: int) -> PinnedSnapshot:
        pinned = PinnedSnapshot(reader, time, self._wall.seconds())
        self._kept.append(pinned)
        return pinned

    def _at(self, wanted: int, newest: PinnedSnapshot) -> PinnedSnapshot:
        before = [kept for kept in self._kept if kept.time <= wanted]
        found = max(before, key=lambda kept: kept.time, default=None)
        if found is not None:
            assert isinstance(newest.reader, Snapshot)  # a store has no others
            following = next(newest.reader.entries(found.time), None)
            if following is None or following[0] > wanted:
                return found
        raise too_old(wanted)

    def reap(self) -> None:
        """Close what was not used for a while; the oldest ones first if there are too many."""
        oldest = self._wall.seconds() - _KEPT_SECONDS
        idle = [kept for kept in self._kept if not kept.users]
        excess = len(self._kept) - _MOST_KEPT
        for number, kept in enumerate(sorted(idle, key=lambda kept: kept.last_use)):
            if kept.last_use < oldest or number < excess:
                self._kept.remove(kept)
                kept.reader.close()

    def close(self) -> None:
        """Close everything."""
        for kept in self._kept:
            kept.reader.close()
        self._kept.clear()


def too_old(wanted: int) -> CommandError:
    """The error of a reader who wants a state that is not kept."""
    reason = f"Read timestamp {in_words(wanted)} is older than the oldest available timestamp."
    return CommandError(ErrorCode.SnapshotTooOld, reason)
