"""Stored states of a whole cluster, for read concern `snapshot`."""

from tailrace.mongod.cluster.reads.states import ClusterState, ClusterStates
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.reads.snapshots import PinnedSnapshot, SnapshotHistory
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
            time, state = await states.while_paused(lambda: _state_at(states, wanted))
            found = self._keep(state, time)
        return self._used(found)


def _state_at(states: ClusterStates, wanted: int | None) -> tuple[int, ClusterState]:
    if wanted is None:
        return states.clock.now, states.snapshot()
    return wanted, states.snapshot_at(wanted)
