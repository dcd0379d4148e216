"""Cluster time around commands: gossip from clients, `afterClusterTime`, and the times in replies."""

from typing import Protocol

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.concerns import check_not_ahead
from tailrace.mongod.server.net.replies import ReplyTail
from tailrace.mongod.server.replica_set.no_ops import write_no_op
from tailrace.mongod.server.replica_set.replication import Replication
from tailrace.mongod.store.store import Store


class NodeTimes(Protocol):
    """The cluster time of a node."""

    def hear(self, time: int) -> None:
        """Advance the clock to a time that a client has sent."""

    async def wait_for(self, wanted: int) -> None:
        """Make sure that reads are not older than a cluster time (`afterClusterTime`)."""

    def reply_tail(self) -> bytes:
        """The times that end every reply, as BSON elements."""


class MemberTimes:
    """The cluster time of a member, by its store; a standalone server has none."""

    def __init__(self, store: Store, replication: Replication, *, is_shard: bool) -> None:
        self._store = store
        self._replication = replication
        self._is_shard = is_shard
        self._tail = ReplyTail()

    def hear(self, time: int) -> None:
        if self._replication.is_replica_set:
            self._store.clock.advance_to(time)

    async def wait_for(self, wanted: int) -> None:
        store = self._store
        if wanted <= store.last_committed:
            return
        if not self._replication.is_replica_set:
            raise CommandError(ErrorCode.NotAReplicaSet, "afterClusterTime needs a replica set")
        check_not_ahead("afterClusterTime", wanted, store.clock.now)
        # A shard that has promised the time need not write: shards share the clock of their cluster.
        if not self._is_shard or wanted > store.promised:
            await write_no_op(store, {"append noop write": 1})

    def reply_tail(self) -> bytes:
        if not self._replication.is_replica_set:
            return b""
        committed = self._store.last_committed
        return self._tail.encoded(max(self._store.clock.now, committed), committed)
