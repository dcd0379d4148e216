"""Find the document of a statement that may be on any of several shards."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.cluster.writes.statement import Statement
from tailrace.mongod.server.writes.command_time import CommandTime
from tailrace.mongod.server.writes.new_document import storable
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.server.writes.targets import Selection, Target
from tailrace.mongod.server.writes.update import CompiledUpdate, id_of
from tailrace.mongod.store.clock import ClusterClock
from tailrace.query.variables import variables_at


@dataclass(slots=True)
class _Now:
    wall: int
    clock: ClusterClock


@dataclass(frozen=True, slots=True)
class FoundTarget:
    """What a statement finds in the whole cluster."""

    target: Target | None
    _update: CompiledUpdate | None
    _clock: ClusterClock

    def after(self) -> bytes:
        """The document after the update."""
        assert self.target is not None, "there is a document"
        return self.target.raw if self._update is None else self._update.preview(self.target)

    def new_document(self) -> bytes:
        """The document that an upsert inserts."""
        assert self._update is not None, "deletes insert nothing"
        return storable(self._update.new_document(), self._clock, fill_timestamps=False)


def find_target(context: RouterContext, statement: Statement) -> FoundTarget:
    """Find the document of a statement, as one shard with all documents would."""
    spec = statement.work
    assert isinstance(spec, UpdateSpec | DeleteSpec), "documents to insert are not looked for"
    clock = context.node.states.clock
    time = _time(context)
    variables = variables_of(context, time)
    with context.reader() as reader:
        collection = reader.catalog.collection(statement.ns)
        update = CompiledUpdate(spec, collection, time, variables) if isinstance(spec, UpdateSpec) else None
        selection = (
            Selection(
                spec.query,
                variables=variables,
                collation=spec.collation,
                sort=spec.sort,
                hint=spec.hint,
                collection=collection,
            )
            if update is None
            else update.selection
        )
        target = None if collection is None else selection.first(reader, collection, context)
        return FoundTarget(target, update, clock)


def _time(context: RouterContext) -> CommandTime:
    clock = context.node.states.clock
    return CommandTime(_Now(clock.wall.milliseconds(), clock))


def variables_of(context: RouterContext, time: CommandTime | None = None) -> dict[str, Any]:
    """The variables for the filters and updates of a command."""
    time = time or _time(context)
    return variables_at(time.now, time.cluster_time, context.arguments().document("let", None))


def key_query(sharded: TrackedCollection, document: bytes) -> Mapping[str, Any]:
    """A filter by `_id` and shard key, which matches a document while it stays on its shard."""
    values = sharded.key.values_of(document)
    query = {path: {"$eq": values.get(path)} for path in sharded.key.paths}
    return {"_id": {"$eq": id_of(document)}, **query}
