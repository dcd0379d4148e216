"""Where states to read come from: one store, or those of all shards behind a router."""

from typing import Protocol

from tailrace.mongod.store.catalog import Catalog
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.reader import State


class States(Protocol):
    """The newest states of a deployment's data."""

    clock: ClusterClock

    @property
    def catalog(self) -> Catalog:
        """What collections there are now."""

    @property
    def last_committed(self) -> int:
        """The cluster time of the newest change that is on disk."""

    def snapshot(self) -> State:
        """The newest state; to be closed."""

    def for_reader(self) -> "States":
        """States in which a reader who takes one after the other meets no document twice."""
