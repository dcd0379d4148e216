"""The current states of a cluster: for reads of a router what `Store` is for reads of a replica set."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar
from weakref import WeakSet

from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD, PlacementState
from tailrace.mongod.cluster.reads.cluster_catalog import CatalogMerger, ClusterCatalog
from tailrace.mongod.cluster.reads.cluster_reader import ClusterReader
from tailrace.mongod.cluster.reads.earlier_catalog import EarlierCatalog
from tailrace.mongod.store.catalog import Catalog
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.reader import Reader, Snapshot, State
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.pacing import unpaced

T = TypeVar("T")
Kind = TypeVar("Kind", bound=ClusterReader)

_SECONDS_BETWEEN_LOOKS: Final = 0.05


class ClusterState(ClusterReader, State):
    """A committed state of every shard."""

    _snapshots: Mapping[str, Snapshot] = {}

    def close(self) -> None:
        for snapshot in self._snapshots.values():
            snapshot.close()

    def newest_time(self) -> int:
        """The cluster time of the newest change in it."""
        return max(snapshot.newest_time() for snapshot in self._snapshots.values())


class ClusterStates:
    """Returns states of the whole cluster; to be used in the event loop's thread."""

    def __init__(self, clock: ClusterClock, placement: Placement, stores: Mapping[str, Store]) -> None:
        """``stores`` are those of the shards and of the config server, by name; the mapping may change."""
        self.clock = clock
        self._placement = placement
        self._newest_placement = placement
        self._stores = stores
        self._merger = CatalogMerger()
        self._readers: WeakSet[ClusterStates] = WeakSet()
        self._numbers: dict[str, int] = {CONFIG_SHARD: 0}
        self._later: Catalog | None = None
        """The newest catalog, in states of an earlier time"""
        self.multi_shard_lock = asyncio.Lock()
        """Held while several shards are changed or read as of one moment"""

    @property
    def catalog(self) -> Catalog:
        """The collections that exist now."""
        return self._merged({name: store.catalog for name, store in self._stores.items()}).catalog

    @property
    def last_committed(self) -> int:
        """The cluster time of the newest change that is on disk."""
        return max(store.last_committed for store in self._stores.values())

    def snapshot(self) -> ClusterState:
        """The current state of every shard; close it."""
        return self._state({name: store.snapshot() for name, store in self._stores.items()})

    def snapshot_at(self, time: int) -> ClusterState:
        """The state of every shard at a cluster time; call it while the writers are paused, and close it."""
        states = self.at(time)
        return states._state({name: store.snapshot_at(time) for name, store in self._stores.items()})

    def _state(self, snapshots: Mapping[str, Snapshot]) -> ClusterState:
        state = self._over(ClusterState, snapshots)
        state._snapshots = snapshots
        return state

    def reader(self, readers: Mapping[str, Reader]) -> ClusterReader:
        """The cluster as some readers of its shards see it: those of a transaction."""
        return self._over(ClusterReader, readers)

    def frozen(self) -> "ClusterStates":
        """States with the placement of this moment, whatever changes later."""
        states = copy(self)
        states._placement = copy(self._placement)
        return states

    def at(self, time: int) -> "ClusterStates":
        """States with the placement at a cluster time."""
        states = copy(self)
        states._later = self.catalog
        with self._stores[CONFIG_SHARD].snapshot_at(time) as reader:
            states._placement = self._placement.at(reader)
        return states

    def for_reader(self) -> "ClusterStates":
        """States for one cursor, which reads every document from the same shard until it is closed.

        A moved document is on two shards for a while; the old copy is removed after the cursor is closed.
        """
        states = self.frozen()
        self._readers.add(states)
        return states

    async def without_readers_before(self, version: int) -> None:
        """Wait until no cursor is open that was opened under an earlier version of the placement."""
        while any(states._placement.version < version for states in list(self._readers)):
            # The last reference to a cursor may be dropped in any thread, so this polls.
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    def has_same_placement(self, placement: Placement, ns: str) -> bool:
        """Whether a namespace is on the same shards as in another placement."""
        if ns.partition(".")[0] not in self._known.databases:
            return True  # the database is newer than this placement, so nothing of it was moved
        return self._known.ownership_of(ns) == placement.state.ownership_of(ns)

    @property
    def _known(self) -> PlacementState:
        """The placement in use; databases created later are added, because nothing of them was moved."""
        own, newest = self._placement.state, self._newest_placement.state
        if own.databases.keys() >= newest.databases.keys():
            return own
        return replace(own, databases={**newest.databases, **own.databases})

    def _over(self, kind: type[Kind], readers: Mapping[str, Reader]) -> Kind:
        placement = self._known
        newest = self._newest_placement.state
        merged = self._merged({name: reader.catalog for name, reader in readers.items()})
        if self._later is not None:
            merged = replace(merged, catalog=EarlierCatalog(merged.catalog, self._later))
        sharded = [own for own in placement.collections.values() if not own.is_unsplittable]
        filters = {
            own.uuid: own.owns
            for own in sharded
            if own.may_have_orphans or newest.collections.get(own.ns) is not own
        }
        return kind(readers, merged, self._numbers, filters, frozenset(own.uuid for own in sharded))

    def _merged(self, catalogs: Mapping[str, Catalog]) -> ClusterCatalog:
        for name in catalogs:
            self._numbers.setdefault(name, len(self._numbers))
        return self._merger.merged(self._known, catalogs)

    async def while_paused(self, take: Callable[[], T]) -> T:
        """Call a function while no store commits, so that it sees all shards at the same moment.

        The writers pause between two jobs: acknowledged writes are in the stores, and nothing is half done.
        """
        loop = asyncio.get_running_loop()
        go_on = threading.Event()

        def stand(arrived: "asyncio.Future[None]", _unit: WriteUnit) -> None:
            loop.call_soon_threadsafe(_arrive, arrived)
            go_on.wait()

        async with self.multi_shard_lock:  # two at once could each hold a writer that the other one waits for
            arrivals = [loop.create_future() for _ in self._stores]
            writes = [
                asyncio.ensure_future(store.write(partial(stand, arrived)))
                for store, arrived in zip(self._stores.values(), arrivals, strict=True)
            ]
            try:
                await asyncio.gather(*arrivals)
                with unpaced():
                    return take()
            finally:
                go_on.set()
                await asyncio.gather(*writes)


def _arrive(arrived: "asyncio.Future[None]") -> None:
    # A job may run twice, and the waiter may have been cancelled.
    if not arrived.done():
        arrived.set_result(None)
