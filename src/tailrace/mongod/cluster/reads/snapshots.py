"""States of a whole cluster that are kept for readers who want one moment: read concern `snapshot`."""

from typing import TYPE_CHECKING

from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.reads.snapshots import PinnedSnapshot, SnapshotHistory, too_old
from tailrace.mongod.store.clock import WallClock

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster
    from tailrace.mongod.server.dispatch.context import Context


class ClusterSnapshots(SnapshotHistory):
    """The states of all shards that are kept, each of one moment."""

    def __init__(self, wall: WallClock, cluster: "Cluster") -> None:
        super().__init__(wall)
        self._cluster = cluster

    async def pin(self, context: "Context") -> PinnedSnapshot:
        """See `SnapshotHistory`."""
        states = self._cluster.states
        wanted = context.read_concern.at_cluster_time
        found = None if wanted is None else self._kept_at(wanted)
        if wanted is not None and found is None:
            check_not_ahead("atClusterTime", wanted, states.clock.now)
        if found is None:
            # Nothing with an earlier time can come behind this one: the writers stand still.
            state, time = await states.while_still(lambda: (states.snapshot(), states.clock.now))
            if wanted is not None and wanted < state.newest_time():
                state.close()
                raise too_old(wanted)
            found = self._keep(state, time)
        return self._used(found)
