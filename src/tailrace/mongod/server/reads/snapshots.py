"""States of the store for the read concern `snapshot`.

A client that reads at one moment names its cluster time in later commands. Earlier states are computed
(`mongod/store/past/`), which takes longer the more has changed since; so the states that were read last are
kept for a while.
"""

from abc import ABC, abstractmethod
from typing import Final

from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.replica_set.no_ops import write_no_op
from tailrace.mongod.store.catalog import Catalog
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.reader import State
from tailrace.mongod.store.store import Store

_KEPT_SECONDS: Final = 60.0
_MOST_KEPT: Final = 32


class PinnedSnapshot:
    """A state and its time; closed some time after its last use."""

    def __init__(self, reader: State, time: int, now: float, catalog: Catalog | None = None) -> None:
        self.reader = reader
        self.catalog = catalog
        """The newest catalog when it was opened."""
        self.time = time
        """The cluster time at which it is read."""
        self.last_use = now
        self.users = 0

    def release(self) -> None:
        self.users -= 1


class SnapshotHistory(ABC):
    def __init__(self, wall: WallClock) -> None:
        self._wall = wall
        self._kept: list[PinnedSnapshot] = []

    @abstractmethod
    async def pin(self, wanted: int | None) -> PinnedSnapshot:
        """The state at a cluster time, or the newest, for the read concern `snapshot`; to be released."""

    def _used(self, found: PinnedSnapshot) -> PinnedSnapshot:
        found.users += 1
        found.last_use = self._wall.seconds()
        self.reap()
        return found

    def _kept_at(self, time: int) -> PinnedSnapshot | None:
        return next((kept for kept in self._kept if kept.time == time), None)

    def _keep(self, reader: State, time: int, catalog: Catalog | None = None) -> PinnedSnapshot:
        pinned = PinnedSnapshot(reader, time, self._wall.seconds(), catalog)
        self._kept.append(pinned)
        return pinned

    def reap(self) -> None:
        """Close states that were not used for a while; if there are too many, those unused for longest."""
        oldest = self._wall.seconds() - _KEPT_SECONDS
        idle = [kept for kept in self._kept if not kept.users]
        excess = len(self._kept) - _MOST_KEPT
        for number, kept in enumerate(sorted(idle, key=lambda kept: kept.last_use)):
            if kept.last_use < oldest or number < excess:
                self._kept.remove(kept)
                kept.reader.close()

    def close(self) -> None:
        for kept in self._kept:
            kept.reader.close()
        self._kept.clear()


class StoreSnapshots(SnapshotHistory):
    def __init__(self, wall: WallClock, store: Store) -> None:
        super().__init__(wall)
        self._store = store

    async def pin(self, wanted: int | None) -> PinnedSnapshot:
        store = self._store
        if wanted is not None and wanted > store.last_committed:
            check_not_ahead("atClusterTime", wanted, store.clock.now)
            # After this entry nothing can be written that belongs to an earlier time.
            await write_no_op(store, {"msg": "noop write for atClusterTime read concern"})
        time = store.last_committed if wanted is None else wanted
        found = None
        if time >= store.past.since:
            # The newest catalog counts, so a state from before a change of the catalog is not used again.
            found = next((k for k in self._kept if k.time == time and k.catalog is store.catalog), None)
        return self._used(found or self._keep(store.snapshot_at(time), time, store.catalog))
