"""The newest states of a cluster: what `Store` is to a replica set's reads, for a router's."""

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
from tailrace.mongod.store.catalog import Catalog
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.reader import Reader, Snapshot, State
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

T = TypeVar("T")
Kind = TypeVar("Kind", bound=ClusterReader)

_SECONDS_BETWEEN_LOOKS: Final = 0.05


class ClusterState(ClusterReader, State):
    """A committed state of every shard."""

    _snapshots: Mapping[str, Snapshot] = {}

    def close(self) -> None:
        """Let go of all of them."""
        for snapshot in self._snapshots.values():
            snapshot.close()

    def newest_time(self) -> int:
        """The cluster time of the newest change in it."""
        return max(snapshot.newest_time() for snapshot in self._snapshots.values())


class ClusterStates:
    """Gives states of the whole cluster. To be used in the event loop's thread."""

    def __init__(self, clock: ClusterClock, placement: Placement, stores: Mapping[str, Store]) -> None:
        """``stores`` are those of the shards and of the config server, by name; it may change."""
        self.clock = clock
        self._placement = placement
        self._newest_placement = placement
        self._stores = stores
        self._merger = CatalogMerger()
        self._readers: WeakSet[ClusterStates] = WeakSet()
        self._numbers: dict[str, int] = {CONFIG_SHARD: 0}
        self.steady = asyncio.Lock()
        """Held while something happens on several shards that has to look like one moment"""

    @property
    def catalog(self) -> Catalog:
        """What collections there are now."""
        return self._merged({name: store.catalog for name, store in self._stores.items()}).catalog

    @property
    def last_committed(self) -> int:
        """The cluster time of the newest change that is on disk."""
        return max(store.last_committed for store in self._stores.values())

    def snapshot(self) -> ClusterState:
        """The newest state of every shard; to be closed."""
        snapshots = {name: store.snapshot() for name, store in self._stores.items()}
        state = self._over(ClusterState, snapshots)
        state._snapshots = snapshots
        return state

    def reader(self, readers: Mapping[str, Reader]) -> ClusterReader:
        """The cluster as some readers of its shards see it: those of a transaction."""
        return self._over(ClusterReader, readers)

    def frozen(self) -> "ClusterStates":
        """States that take the placement for what it is now, whatever changes."""
        states = copy(self)
        states._placement = copy(self._placement)
        return states

    def for_reader(self) -> "ClusterStates":
        """States for a cursor from its first batch to its last: each document stays where it was for it.

        A document that is moved is on two shards for a while. The cursor goes on reading the one that it
        began with, which stays there until the cursor is gone.
        """
        states = self.frozen()
        self._readers.add(states)
        return states

    async def without_readers_before(self, version: int) -> None:
        """Return when no cursor is open any more that began under an earlier placement than this one."""
        while any(states._placement.version < version for states in list(self._readers)):
            # A cursor may go in any thread, with the last reference to it; looking is all that can be done.
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    def places_as(self, placement: Placement, ns: str) -> bool:
        """Whether a namespace lives where another placement says."""
        if ns.partition(".")[0] not in self._known.databases:
            return True  # nobody has written to it since, so there was nothing to be moved
        return self._known.ownership_of(ns) == placement.state.ownership_of(ns)

    @property
    def _known(self) -> PlacementState:
        """The placement that it goes by; a database that came later is where it is, for there was nothing."""
        own, newest = self._placement.state, self._newest_placement.state
        if own.databases.keys() >= newest.databases.keys():
            return own
        return replace(own, databases={**newest.databases, **own.databases})

    def _over(self, kind: type[Kind], readers: Mapping[str, Reader]) -> Kind:
        placement = self._known
        newest = self._newest_placement.state
        merged = self._merged({name: reader.catalog for name, reader in readers.items()})
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

    async def while_still(self, take: Callable[[], T]) -> T:
        """Call a function while no store commits: what it looks at belongs to one moment everywhere.

        The writers stop between two jobs; what is acknowledged is in the stores, and nothing half done.
        """
        loop = asyncio.get_running_loop()
        go_on = threading.Event()

        def stand(arrived: "asyncio.Future[None]", _unit: WriteUnit) -> None:
            loop.call_soon_threadsafe(_arrive, arrived)
            go_on.wait()

        async with self.steady:  # two at once could each hold the writer the other one waits for
            arrivals = [loop.create_future() for _ in self._stores]
            writes = [
                asyncio.ensure_future(store.write(partial(stand, arrived)))
                for store, arrived in zip(self._stores.values(), arrivals, strict=True)
            ]
            try:
                await asyncio.gather(*arrivals)
                return take()
            finally:
                go_on.set()
                await asyncio.gather(*writes)


def _arrive(arrived: "asyncio.Future[None]") -> None:
    # A job may be run twice, and whoever waited may have given up.
    if not arrived.done():
        arrived.set_result(None)
