"""What a reader asks for snapshots: one store, or the stores of all shards."""

from typing import Protocol

from tailrace.mongod.store.catalog import Catalog
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.reader import State


class SnapshotSource(Protocol):
    """The newest state of a deployment's data."""

    clock: ClusterClock

    @property
    def catalog(self) -> Catalog:
        """The newest committed catalog."""

    @property
    def last_committed(self) -> int:
        """The cluster time of the newest change that is on disk."""

    def snapshot(self) -> State:
        """The newest committed state; the caller closes it."""

    def for_reader(self) -> "SnapshotSource":
        """A source for one reader: successive snapshots show it no document twice, even if documents move."""
