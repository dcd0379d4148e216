"""Choose the shards of a statement."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.state import CONFIG_DATABASES, CONFIG_SHARD, TrackedCollection
from tailrace.mongod.cluster.placement.targeting import exact_key, targets
from tailrace.mongod.cluster.writes.form import Form
from tailrace.mongod.cluster.writes.retried import ExecutedStatements
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.writes.new_document import storable
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.store.clock import ClusterClock
from tailrace.query.collation import Collation

_LOCAL: Final = "local"


class Route(NamedTuple):
    """The shards of a statement."""

    shards: tuple[str, ...]
    is_search: bool = False
    """Whether it is for one document that may be on any of the shards"""

    @property
    def only(self) -> str | None:
        """The only shard, if the statement can be sent together with others."""
        return self.shards[0] if len(self.shards) == 1 and not self.is_search else None


class Routing:
    """Chooses the routes of one command's statements, while the placement does not change."""

    def __init__(
        self,
        placement: Placement,
        clock: ClusterClock,
        form: Form,
        executed: ExecutedStatements,
        *,
        in_transaction: bool,
        fills_timestamps: bool,
    ) -> None:
        self._placement = placement
        self._clock = clock
        self._form = form
        self._executed = executed
        self._in_transaction = in_transaction
        self._fills_timestamps = fills_timestamps

    async def route(self, statement: Statement) -> Route:
        """The shards of a statement; its database is created if it does not exist."""
        executed_by = self._executed.shard_of(statement.id)
        if executed_by is not None:
            return Route((executed_by,))
        sharded = self._placement.sharded(statement.ns)
        if sharded is None:
            return Route((await self._home(statement.ns),))
        if statement.work is None:
            statement.work = self._form.read(statement)
        work = statement.work
        if isinstance(work, UpdateSpec):
            return self._of_update(sharded, work)
        if isinstance(work, DeleteSpec):
            shards = _targets(sharded, work)
            return Route(shards, is_search=not work.multi and len(shards) > 1)
        document = storable(work, self._clock, fill_timestamps=self._fills_timestamps)
        if document is not work:
            # The shard key may have a value that is filled in.
            statement.work = document
            statement.raw = self._form.insertion(statement, document)
        return Route((sharded.owner_of(document),))

    async def _home(self, ns: str) -> str:
        """The shard of an unsharded collection."""
        database = ns.partition(".")[0]
        if database == _LOCAL:
            raise CommandError(
                ErrorCode.IllegalOperation, "every shard has its own database 'local'; connect to a shard"
            )
        if database in CONFIG_DATABASES:
            return CONFIG_SHARD
        await self._placement.create_database(database)
        (shard,) = self._placement.shards_of(ns)
        return shard

    def _of_update(self, sharded: TrackedCollection, spec: UpdateSpec) -> Route:
        shards = _targets(sharded, spec)
        if spec.multi:
            if spec.upsert and exact_key(sharded.key, spec.query, collation_for(sharded, spec)) is None:
                raise CommandError(
                    ErrorCode.ShardKeyNotFound,
                    f"an upsert of many documents needs the value of the whole shard key of {sharded.ns} in "
                    "its filter",
                )
            return Route(shards)
        # A shard that rejects a change of owner would abort the transaction.
        is_delicate = self._in_transaction and (spec.upsert or may_change_key(sharded, spec.update))
        return Route(shards, is_search=len(shards) > 1 or is_delicate)


def may_change_key(sharded: TrackedCollection, update: Any) -> bool:
    """Whether an update may change the shard key; False only if it certainly does not.

    >>> from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
    >>> from tailrace.mongod.cluster.placement.shard_key import ShardKey
    >>> key = ShardKey({"a.b": 1})
    >>> sharded = TrackedCollection("shop.orders", b"", key, ChunkMap.whole(key, "shard0", 1), 1)
    >>> [may_change_key(sharded, update) for update in ({"$set": {"a.c": 1}}, {"$set": {"a": 1}}, {"x": 1})]
    [False, True, True]
    """
    if not isinstance(update, Mapping) or not all(name.startswith("$") for name in update):
        return True
    changed = {path for paths in update.values() if isinstance(paths, Mapping) for path in paths}
    changed |= {path for path in (update.get("$rename") or {}).values() if is_string(path)}
    return any(_is_prefix_of_other(path, own) for path in changed for own in sharded.key.paths)


def _is_prefix_of_other(one: str, other: str) -> bool:
    """Whether one of two paths is a prefix of the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def collation_for(sharded: TrackedCollection, spec: UpdateSpec | DeleteSpec) -> Collation | None:
    """The collation of a statement's filter: its own, or the collection's."""
    given = sharded.collation if spec.collation is None else spec.collation
    return None if given is None else Collation.parse(dict(given))


def _targets(sharded: TrackedCollection, spec: UpdateSpec | DeleteSpec) -> tuple[str, ...]:
    """The shards that can have matches; if there are none, one shard, which validates the filter."""
    return targets(sharded, spec.query, collation_for(sharded, spec)) or sharded.shards[:1]
