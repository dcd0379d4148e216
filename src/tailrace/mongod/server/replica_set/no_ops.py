"""Oplog entries that change nothing and let cluster time advance.

Without them a change stream on an idle server would not advance either, and its resume token would become
older than the oplog.
"""

from typing import Any, Final

from tailrace.mongod.server.admin.parameters import Parameters
from tailrace.mongod.server.replica_set.replication import Replication
from tailrace.mongod.store.store import Store, no_op

MESSAGE: Final = {"msg": "periodic noop"}


async def write_no_op(store: Store, message: dict[str, Any]) -> int:
    """Write one; returns its cluster time."""
    return await store.write(lambda unit: unit.log(no_op(message)))


class PeriodicNoop:
    """The background job that writes one if nothing else was written since its last run."""

    def __init__(self, store: Store, replication: Replication, parameters: Parameters) -> None:
        self._store = store
        self._replication = replication
        self._parameters = parameters
        self._seen = 0

    def pause(self) -> float:
        return float(self._parameters["periodicNoopIntervalSecs"])

    async def run(self) -> None:
        store = self._store
        if not self._replication.is_replica_set or not self._replication.is_primary:
            return
        if self._parameters["writePeriodicNoops"] and store.last_committed == self._seen:
            await write_no_op(store, MESSAGE)
        self._seen = store.last_committed
