"""Stored states of a whole cluster, for read concern `snapshot`."""

from tailrace.mongod.cluster.reads.states import ClusterStates
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.reads.snapshots import PinnedSnapshot, SnapshotHistory, too_old
from tailrace.mongod.store.clock import WallClock


class ClusterSnapshots(SnapshotHistory):
    """States of all shards at the same moments."""

    def __init__(self, wall: WallClock, states: ClusterStates) -> None:
        super().__init__(wall)
        self._states = states

    async def pin(self, wanted: int | None) -> PinnedSnapshot:
        states = self._states
        found = None if wanted is None else self._kept_at(wanted)
        if wanted is not None and found is None:
            check_not_ahead("atClusterTime", wanted, states.clock.now)
        if found is None:
            # No entry can get an earlier time afterwards, because the writers are paused.
            state, time = await states.while_paused(lambda: (states.snapshot(), states.clock.now))
            if wanted is not None and wanted < state.newest_time():
                state.close()
                raise too_old(wanted)
            found = self._keep(state, time)
        return self._used(found)
