"""What a placement can be asked: one frozen value, and the questions about it."""

from collections.abc import Mapping

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.state import Database, PlacementState, Shard, ShardedCollection
from tailrace.mongod.server.streams.stream_place import no_such_shard


class PlacementQueries:
    """Where everything is, as far as it is known now."""

    def __init__(self) -> None:
        self._state = PlacementState()

    @property
    def state(self) -> PlacementState:
        """Everything known, as one frozen value."""
        return self._state

    @property
    def shards(self) -> Mapping[str, Shard]:
        """The shards by name, in the order in which they joined."""
        return self._state.shards

    @property
    def removed_shards(self) -> Mapping[str, int]:
        """When a shard of that name left last, as a cluster time; one that came back is still among them."""
        return self._state.removed

    @property
    def databases(self) -> Mapping[str, Database]:
        """The databases by name."""
        return self._state.databases

    @property
    def collections(self) -> Mapping[str, ShardedCollection]:
        """The collections with a place of their own, sharded or not, by namespace."""
        return self._state.collections

    def primary_of(self, database: str) -> str | None:
        """The shard a database's unsharded collections live on; None if there is no such database."""
        return self._state.primary_of(database)

    def sharded(self, ns: str) -> ShardedCollection | None:
        """A sharded collection; None if it is not sharded or not there."""
        found = self._state.collections.get(ns)
        return None if found is None or found.is_unsplittable else found

    def shards_of(self, ns: str) -> tuple[str, ...]:
        """The shards that hold, or would hold, the data of a namespace; none without its database."""
        return self._state.shards_of(ns)

    def may_have_orphans(self, ns: str) -> bool:
        """Whether a shard may have documents of a collection that belong to another."""
        found = self._state.collections.get(ns)
        return found is not None and found.may_have_orphans

    def shard(self, name: str) -> Shard:
        """The shard of that name, or of that replica set; ShardNotFound (70) without one."""
        found = self._state.shards.get(name)
        if found is None:
            found = next((shard for shard in self._state.shards.values() if shard.host == name), None)
        if found is None:
            raise no_such_shard(name)
        return found

    def require(self, ns: str) -> ShardedCollection:
        """A sharded collection; NamespaceNotSharded (118) if it is not."""
        found = self.sharded(ns)
        if found is None:
            raise CommandError(ErrorCode.NamespaceNotSharded, f"the collection {ns} is not sharded")
        return found

    def least_loaded(self) -> str:
        """The shard for a new database: the one that is primary of the fewest, the oldest of these."""
        loads = {name: 0 for name, shard in self._state.shards.items() if not shard.is_draining}
        for database in self._state.databases.values():
            if database.primary in loads:
                loads[database.primary] += 1
        if not loads:
            raise CommandError(ErrorCode.ShardNotFound, "the cluster has no shard that takes new databases")
        return min(loads, key=lambda name: loads[name])
