"""Answer questions about the current placement."""

from collections.abc import Mapping

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.state import Database, PlacementState, Shard, TrackedCollection
from tailrace.mongod.server.streams.stream_place import no_such_shard


class PlacementQueries:
    """The current state of the placement, and queries on it."""

    def __init__(self) -> None:
        self._state = PlacementState()

    @property
    def state(self) -> PlacementState:
        """Everything, as one frozen value."""
        return self._state

    @property
    def shards(self) -> Mapping[str, Shard]:
        """The shards by name, in the order in which they joined."""
        return self._state.shards

    @property
    def removed_shards(self) -> Mapping[str, int]:
        """The cluster time of the last removal of a shard, by name; also of shards that were added again."""
        return self._state.removed

    @property
    def databases(self) -> Mapping[str, Database]:
        return self._state.databases

    @property
    def collections(self) -> Mapping[str, TrackedCollection]:
        """The tracked collections, sharded or not, by namespace."""
        return self._state.collections

    def primary_of(self, database: str) -> str | None:
        """The shard of a database's untracked collections; None if the database does not exist."""
        return self._state.primary_of(database)

    def sharded(self, ns: str) -> TrackedCollection | None:
        """A sharded collection; None if it is not sharded or does not exist."""
        found = self._state.collections.get(ns)
        return None if found is None or found.is_unsplittable else found

    def shards_of(self, ns: str) -> tuple[str, ...]:
        """The shards that have, or would have, a namespace's data; none if its database does not exist."""
        return self._state.shards_of(ns)

    def may_have_orphans(self, ns: str) -> bool:
        """Whether a shard may have documents of a collection that it does not own."""
        found = self._state.collections.get(ns)
        return found is not None and found.may_have_orphans

    def shard(self, name: str) -> Shard:
        """A shard by its name or by its replica set's address; raises ShardNotFound (70)."""
        found = self._state.shards.get(name)
        if found is None:
            found = next((shard for shard in self._state.shards.values() if shard.host == name), None)
        if found is None:
            raise no_such_shard(name)
        return found

    def require(self, ns: str) -> TrackedCollection:
        """A sharded collection; raises NamespaceNotSharded (118) if it is not sharded."""
        found = self.sharded(ns)
        if found is None:
            raise CommandError(ErrorCode.NamespaceNotSharded, f"the collection {ns} is not sharded")
        return found

    def least_loaded(self) -> str:
        """The shard for a new database: the primary of the fewest databases, the oldest one among equals."""
        loads = {name: 0 for name, shard in self._state.shards.items() if not shard.is_draining}
        for database in self._state.databases.values():
            if database.primary in loads:
                loads[database.primary] += 1
        if not loads:
            raise CommandError(
                ErrorCode.ShardNotFound, "the cluster has no shard for new databases: all are being removed"
            )
        return min(loads, key=lambda name: loads[name])
