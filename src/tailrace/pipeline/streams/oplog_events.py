"""Streams on oplogs: a local engine that is fed shard by shard."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from tailrace.events.layout.entry import COMMAND_START
from tailrace.events.oplog_entry import parse_entry
from tailrace.events.promise import Promise, promise
from tailrace.events.scope import ScopeKind
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.log.local_engine import LocalEngine
from tailrace.pipeline.history.build import shared_rows
from tailrace.pipeline.streams.event_source import Blocks, EventSource, Rows, StreamRun
from tailrace.pipeline.streams.history_run import HistoryRun, shows_blocks
from tailrace.pipeline.streams.row_condition import ALL_ROWS, RowCondition, accepted
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.planning import Planner
from tailrace.sources.source import OplogSource

if TYPE_CHECKING:
    from tailrace.sources.deployments.collections import CollectionReader

_TRANSACTIONS: Final = "admin.$cmd"


class OplogEvents(EventSource):
    """Both parts of the stages in one process: the stream's pre-filter comes first."""

    def __init__(self, source: OplogSource, *, is_archive: bool = False) -> None:
        """With ``is_archive``, the oplogs need not begin at the same time."""
        self._source = source
        self._planner = Planner(source)
        self._is_archive = is_archive

    @property
    def is_cluster(self) -> bool:
        """Whether the shards have names."""
        return self._source.shards() != ("",)

    @property
    def collections(self) -> "CollectionReader":
        if self._is_archive:
            return super().collections
        from tailrace.sources.deployments.deployment import DeploymentSource  # archives do without drivers

        assert isinstance(self._source, DeploymentSource)
        return self._source.collections

    @property
    def is_recorded(self) -> bool:
        return self._source.is_recorded

    def release(self) -> StreamRelease:
        return self._source.release() or CURRENT_RELEASE

    def oldest(self) -> int:
        return self._source.oldest()

    def earliest(self) -> int:
        """Before the first entry; the shards' archives may begin at different times."""
        return 0 if self._is_archive else self._source.beginning()

    def promised(self) -> Promise:
        return promise(self._source.promised())

    def split(self, after: int, through: int, parts: int) -> list[int]:
        return self._planner.cuts(after, through, parts)

    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """See `Planner.batch_end`: limits are for batches that others follow."""
        return self._planner.batch_end(after, through, max_entries, max_bytes)

    def membership(self) -> dict[str, Any]:
        return self._source.membership()

    def remember(self, membership: Mapping[str, Any]) -> None:
        self._source.remember(membership)

    def members_for(self, membership: Mapping[str, Any], after: int) -> Mapping[str, Any]:
        return self._source.members_for(membership, after)

    def having(self, members: Mapping[str, Any]) -> Self:
        events = copy(self)
        events._source = self._source.having(members)
        events._planner = Planner(events._source)
        return events

    def suggested_parts(self, after: int, through: int) -> int:
        return self._planner.suggested_parts(after, through)

    def run(
        self,
        plan: Plan,
        after: int,
        through: int,
        *,
        commands_only: bool = False,
        condition: RowCondition = ALL_ROWS,
    ) -> StreamRun:
        shards = self._source.shards()
        entries = _both(_condition(plan, commands_only=commands_only), condition.entries())
        lookups = {shard: self._source.lookups(shard, after, through) for shard in shards}
        engine = LocalEngine(plan, lookups, from_oldest=False)
        feeds = {shard: self._source.entries(shard, after, through, entries) for shard in shards}
        if commands_only:
            feeds = {shard: map(_commands, batches) for shard, batches in feeds.items()}
        if shows_blocks(plan) and not commands_only:

            def read(_: int) -> Iterator[pa.RecordBatch]:
                return shared_rows(self._source, after, through, condition=entries, has_images=False)

            return BulkRun(engine, feeds, after, HistoryRun(plan, read, through, condition=condition))
        return EngineRun(engine, feeds, after, condition)

    def close(self) -> None:
        """Close connections and files."""
        self._source.close()


def _condition(plan: Plan, *, commands_only: bool) -> EntryCondition:
    """What a stream can see by names alone, for sources that leave out the rest before it is sent."""
    scope = plan.scope
    if commands_only:
        return EntryCondition(frozenset("c"), frozenset({f"{scope.db}.$cmd"}))
    if scope.kind is not ScopeKind.COLLECTION:
        return EVERYTHING
    return EntryCondition(namespaces=frozenset({scope.cursor_ns, f"{scope.db}.$cmd", _TRANSACTIONS}))


def _both(one: EntryCondition, other: EntryCondition) -> EntryCondition:
    return EntryCondition(
        _common(one.operations, other.operations), _common(one.namespaces, other.namespaces)
    )


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return other if one is None else one if other is None else one & other


def _commands(entries: Sequence[bytes]) -> Sequence[bytes]:
    # Documents may contain these bytes too: a first check only.
    return [raw for raw in entries if COMMAND_START in raw and parse_entry(raw).head.op == "c"]


class EngineRun(StreamRun):
    """A local engine and its feeds."""

    def __init__(
        self,
        engine: LocalEngine,
        feeds: Mapping[str, Iterator[Sequence[bytes]]],
        after: int,
        condition: RowCondition = ALL_ROWS,
    ) -> None:
        self._condition = condition
        self._engine = engine
        self._feeds = feeds
        self._after = after

    @property
    def is_invalidated(self) -> bool:
        return self._engine.done

    @property
    def has_resumed(self) -> bool:
        return self._engine.has_resumed

    def rows(self) -> Rows:
        engine = self._engine
        for _ in engine.feed(self._feeds, self._after):
            while rows := engine.drain_rows():
                yield [*rows]

    def blocks(self) -> Blocks:
        return accepted(self.rows(), self._condition)


class BulkRun(EngineRun):
    """The same; where nobody needs an object for each row, rows of a history are made and shown as such."""

    def __init__(
        self,
        engine: LocalEngine,
        feeds: Mapping[str, Iterator[Sequence[bytes]]],
        after: int,
        recorded: HistoryRun,
    ) -> None:
        super().__init__(engine, feeds, after)
        self._recorded = recorded

    def blocks(self) -> Blocks:
        return self._recorded.blocks()
