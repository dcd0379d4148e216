"""Mirror collections as tables, step by step: copy some ranges, apply the changes up to now, and so on.

No step depends on what happened in memory before: every step leaves the tables with all that the next one
needs. So a mirror can be killed at any moment, and another process continues where the tables are.

What is copied is read at a cluster time that is not before the position of the mirror. So the changes of a
range that was not copied yet can be skipped, and those of a range that was copied are applied if they are
later than the time at which it was read (`lake/mirror/copy_state.py`).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Final

from tailrace.errors import HistoryError, UsageError
from tailrace.events.cluster_time import in_words
from tailrace.events.interval import Interval
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.drift import schema_rows
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import MirrorFile, write_rows
from tailrace.lake.mirror.dead_letters import dead_letters_of, publish_dead_letters
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.schema_changes import SchemaChangeTable
from tailrace.lake.mirror.typed_rows import agreed, fits
from tailrace.lake.storage.log_store import open_store
from tailrace.log_lines import fields
from tailrace.pipeline.mirror.changes import CollectionChanges, IntervalChanges, read_changes
from tailrace.pipeline.mirror.lacking import lacking_changes
from tailrace.pipeline.mirror.mirror_state import MirrorState
from tailrace.pipeline.mirror.opening import opened_table
from tailrace.pipeline.mirror.progress import MirrorProgress
from tailrace.pipeline.mirror.refitting import refit_table
from tailrace.pipeline.mirror.scope import is_mirrored
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.pipeline.mirror.table_batches import BatchLimits, TableBatch, table_batch
from tailrace.pipeline.mirror.tasks import (
    BuiltFiles,
    BuiltRange,
    CopyTask,
    RewriteTask,
    RunTasks,
    run_one_by_one,
)
from tailrace.sources.deployments.collections import CollectionFacts
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import Planner

_LOG: Final = logging.getLogger("tailrace.mirror")
_RANGES_PER_CORE: Final = 4
_SMALL_BYTES: Final = 16 << 20
"""Work up to this size is done by the driver: starting a task costs more."""
_VACUUM_BATCHES: Final = 100


@dataclass(slots=True)
class _Mirrored:
    """A collection and its table."""

    table: MirrorTable
    state: CopyState


class MirrorEngine:
    """Mirrors a deployment. Raises the errors of the source; after one, make a new engine."""

    def __init__(
        self,
        source: DeploymentSource,
        settings: MirrorSettings,
        run: RunTasks = run_one_by_one,
        cores: int = 1,
        progress: MirrorProgress | None = None,
        recopy: frozenset[str] = frozenset(),
    ) -> None:
        """Open what is there; ``run`` runs the tasks of a step on ``cores`` cores.

        The collections of ``recopy`` are copied again from the beginning.
        """
        self._source = source
        self._settings = settings
        self._run = run
        self._cores = cores
        self._planner = Planner(source)
        self._refused: set[str] = set()
        self._tables: dict[str, _Mirrored] = {}
        self._batches = 0
        self.progress = progress or MirrorProgress()
        self._store = open_store(settings.root)
        self._changes = SchemaChangeTable(settings.root)
        self._state = self._opened()
        self._recopy = recopy
        self._open_tables()
        self._copy_again(recopy)
        self._store_state(self._state)
        self.progress.through = self._state.through

    # -- the beginning -------------------------------------------------------------------------------------

    def _opened(self) -> MirrorState:
        source = self._source
        state = MirrorState.load(self._store)
        if state is None:
            source.oldest()  # an oplog that cannot be read ends a mirror before it copies anything
            # Before the collections are listed: one that is created later has an entry after this time.
            self._store.prepare()
            through = source.promised()
            return MirrorState(source.identity(), through, membership=source.membership())
        if state.identity != source.identity():
            raise HistoryError(
                f"the mirror in {self._store.place} belongs to the deployment {state.identity}, not to "
                f"{source.identity()}; name another folder"
            )
        source.remember(state.membership)
        return state

    def _open_tables(self) -> None:
        for facts in self._listed():
            if facts.why_not is None:
                self._add(facts.namespace)
            elif facts.namespace not in self._state.namespaces or self._is_named(facts.namespace):
                self._refuse(facts)
        # A collection that was dropped while no mirror ran has a drop among the changes.
        chosen = self._settings.chosen
        known = {*chosen.collections, *(name for name in self._state.namespaces if is_mirrored(chosen, name))}
        for namespace in known - self._tables.keys():
            self._add(namespace)

    def _copy_again(self, namespaces: frozenset[str]) -> None:
        missing = sorted(namespaces - self._tables.keys())
        if missing:
            raise UsageError(f"{missing[0]} is not mirrored, so it cannot be copied again")
        for namespace in namespaces:
            mirrored = self._tables[namespace]
            mirrored.table.commit(removed=mirrored.table.all_files, copy_state=CopyState())
            publish_dead_letters(mirrored.table)
            mirrored.state = CopyState()

    def _listed(self) -> list[CollectionFacts]:
        chosen, reader = self._settings.chosen, self._source.collections
        names = reader.databases() if chosen.databases is None else sorted(chosen.databases)
        listed = [facts for name in names for facts in reader.collections(name)]
        return [facts for facts in listed if is_mirrored(chosen, facts.namespace)]

    def _is_named(self, namespace: str) -> bool:
        return namespace in self._settings.chosen.collections

    def _refuse(self, facts: CollectionFacts) -> None:
        if self._is_named(facts.namespace):
            raise UsageError(f"{facts.namespace} cannot be mirrored: {facts.why_not}")
        self._refused.add(facts.namespace)
        _LOG.warning("Not mirrored", extra=fields(ns=facts.namespace, reason=facts.why_not))

    def _add(self, namespace: str) -> _Mirrored:
        table = opened_table(self._settings, self._state, namespace, is_begun_again=namespace in self._recopy)
        given = self._settings.schemas.get(namespace)
        if given is not None:
            refit_table(table, given, self._run, self._settings.file_bytes)
        mirrored = self._tables[namespace] = _Mirrored(table, table.copy_state)
        return mirrored

    def _store_state(self, state: MirrorState) -> None:
        self._state = replace(state, namespaces=frozenset(self._tables))
        self._state.store_in(self._store)

    # -- the state -----------------------------------------------------------------------------------------

    @property
    def through(self) -> int:
        """The cluster time up to which all changes were applied."""
        return self._state.through

    @property
    def is_copied(self) -> bool:
        """Whether every range of every collection was copied."""
        return all(mirrored.state.is_complete for mirrored in self._tables.values())

    @property
    def is_consistent(self) -> bool:
        """Whether the tables show the collections at the cluster time `through`."""
        return self.is_copied and all(
            mirrored.state.settled <= self.through for mirrored in self._tables.values()
        )

    @property
    def tables(self) -> Mapping[str, MirrorTable]:
        """By namespace."""
        return {name: mirrored.table for name, mirrored in self._tables.items()}

    # -- copying -------------------------------------------------------------------------------------------

    def copy_some(self) -> bool:
        """Copy the next ranges, as many as the cores have use for; False if there is nothing to copy."""
        self._plan_copies()
        waiting = (
            (mirrored, number)
            for mirrored in self._tables.values()
            for number in mirrored.state.missing()
            if mirrored.state.is_planned
        )
        rate = self._settings.max_documents_per_second
        # A server does not keep a snapshot for long, so a slow copy reads few ranges at one.
        wave = list(islice(waiting, self._cores * (_RANGES_PER_CORE if rate is None else 1)))
        reader = self._source.collections
        names = {mirrored.table.namespace for mirrored, _ in wave}
        facts = {name: reader.facts_of(name) for name in names}
        wave = [found for found in wave if _is_copied(facts[found[0].table.namespace])]
        if not wave:
            return False
        if self._planned_again(facts):
            return True
        # Not before the time of these answers: another collection may have got the name just now.
        at = max(self._source.promised(), self.through, reader.newest_time())
        each = None if rate is None else rate / min(len(wave), self._cores)
        tasks = [
            self._copy_task(mirrored, number, facts[mirrored.table.namespace], at, each)
            for mirrored, number in wave
        ]
        built: list[BuiltRange] = list(self._run(tasks))
        for namespace, ranges in groupby(built, key=lambda done: done.namespace):
            self._commit_ranges(self._tables[namespace], list(ranges))
        return True

    def _plan_copies(self) -> None:
        reader = self._source.collections
        for namespace, mirrored in self._tables.items():
            if mirrored.state.is_planned:
                continue
            facts = reader.facts_of(namespace)
            if not _is_copied(facts):
                continue
            estimated = 0 if facts is None else reader.estimated_count(namespace)
            parts = -(-estimated // self._settings.range_documents)
            is_whole = facts is None or facts.has_collation
            mirrored.state = CopyState.planned(() if is_whole else reader.bounds(namespace, parts))
            mirrored.table.commit(copy_state=mirrored.state)
            self.progress.planned(estimated)

    def _planned_again(self, facts: Mapping[str, CollectionFacts | None]) -> bool:
        """Begin the copies again whose ranges have no meaning: of a collection that has a collation now."""
        unfit = [
            name
            for name, found in facts.items()
            if found is not None and found.has_collation and self._tables[name].state.bounds
        ]
        self._copy_again(frozenset(unfit))
        return bool(unfit)

    def _copy_task(
        self, mirrored: _Mirrored, number: int, facts: CollectionFacts | None, at: int, rate: float | None
    ) -> CopyTask:
        lower, upper = mirrored.state.limits(number)
        return CopyTask(
            source=self._source,
            places=mirrored.table.places,
            options=mirrored.table.store.delta_options,
            namespace=mirrored.table.namespace,
            number=number,
            lower=lower,
            upper=upper,
            by_index=facts is None or not facts.has_collation,
            uuid=None if facts is None else facts.uuid,
            at=at,
            file_bytes=self._settings.file_bytes,
            documents_per_second=rate,
            columns=mirrored.table.columns,
        )

    def _commit_ranges(self, mirrored: _Mirrored, built: Sequence[BuiltRange]) -> None:
        state = mirrored.state
        for done in built:
            state = state.with_range(done.number, done.copied)
        files, layout = self._agreed(mirrored, [done.built for done in built])
        mirrored.table.commit(files, copy_state=state, layout=layout)
        publish_dead_letters(mirrored.table)
        mirrored.state = state
        self.progress.copied(sum(done.rows for done in built))

    # -- changes -------------------------------------------------------------------------------------------

    def apply_some(self) -> bool:
        """Apply the next changes, up to the limits of a batch; False if there are none yet."""
        source, after = self._source, self.through
        promised = source.promised()
        self.progress.promised = promised
        if promised <= after:
            return False
        self._check_source()
        limits = self._settings.max_entries, self._settings.max_bytes
        end = self._planner.batch_end(after, promised, *limits)
        membership = source.membership()
        found = self._read(Interval(after, end), membership)
        count = self._apply(found, end)
        newest = {**self._state.newest, **found.newest}
        self._store_state(replace(self._state, through=end, newest=newest, membership=membership))
        self._batches += 1
        if self._batches % _VACUUM_BATCHES == 0:
            self.vacuum()
        self.progress.applied(count, through=end)
        return True

    def _check_source(self) -> None:
        for shard in self._source.shards():
            mark = self._state.newest.get(shard)
            if mark is not None and self._source.has_diverged(shard, mark):
                raise HistoryError(
                    f"the oplog no longer has the entry of {in_words(mark.time)}, up to which the mirror in "
                    f"{self._store.place} has read: the deployment was restored from a backup; name another "
                    "folder for a mirror of what it has now"
                )

    def _read(self, interval: Interval, membership: Mapping[str, object]) -> IntervalChanges:
        source = self._source.having(self._source.members_for(membership, interval.after))
        # Tasks would return the changes through Java: half of the time of reading them, and much memory.
        return read_changes(source, self._settings.chosen, interval, has_past=self._settings.kind.has_past)

    def _apply(self, found: IntervalChanges, through: int) -> int:
        """Merge the changes of all tables, in tasks of all of them together; return how many there were."""
        work: list[tuple[_Mirrored, CopyState, TableBatch]] = []
        count = 0
        for namespace, collection in found.collections.items():
            mirrored = self._mirrored(namespace, collection)
            if mirrored is None:
                continue
            table = mirrored.table
            lacking = lacking_changes(collection, mirrored.state, table.through, table.kind)
            count += len(lacking.changes)
            if lacking.is_any:
                # An update of a document that is missing is a fault, unless the copy may be of a later time.
                is_settling = any(
                    state.is_settling(self.through) for state in (lacking.before, lacking.state)
                )
                limits = BatchLimits(through, self._settings.file_bytes, self._cores, is_settling=is_settling)
                work.append((mirrored, lacking.state, table_batch(table, lacking, limits, self._run)))
        tasks = [task for *_, batch in work for task in batch.tasks]
        run = run_one_by_one if sum(batch.size for *_, batch in work) < _SMALL_BYTES else self._run
        results = iter(run(tasks))
        for mirrored, state, batch in work:
            table = mirrored.table
            merged = batch.merged([next(results) for _ in batch.tasks])
            added, layout = self._agreed(mirrored, merged.built)
            short = state.simplified(through)
            changed_state = None if short == mirrored.state else short
            table.commit(
                [*added, *merged.added],
                merged.removed,
                copy_state=changed_state,
                layout=layout,
                through=through,
            )
            publish_dead_letters(table)
            mirrored.state = short
        for namespace, collection in found.collections.items():
            if namespace in self._tables and self._is_lost(namespace, collection):
                del self._tables[namespace]
                self._refused.add(namespace)
                _LOG.warning("Not mirrored any more", extra=fields(ns=namespace))
        return count

    def _agreed(
        self, mirrored: _Mirrored, built: Sequence[BuiltFiles]
    ) -> tuple[list[MirrorFile], Layout | None]:
        """The files of some tasks, with columns that fit, and the table's columns if they change."""
        table = mirrored.table
        layout, changes = agreed(table.layout, table.kind, [each.columns for each in built])
        if changes:
            self._changes.record(table.namespace, changes)
        unfit = [each for each in built if not fits(each.columns, layout)]
        tasks = [
            RewriteTask(
                table.place,
                table.store.delta_options,
                each.files,
                layout,
                table.kind,
                "again",
                self._settings.file_bytes,
            )
            for each in unfit
        ]
        files = [file for each in built if each not in unfit for file in each.files]
        files += (file for written in self._run(tasks) for file in written)
        if changes and self._settings.schema_rows:
            rows = schema_rows(table.namespace, changes, layout)
            files += write_rows(table.store, rows, name="schema", is_past=True)
        return files, layout if changes else None

    def _mirrored(self, namespace: str, collection: CollectionChanges) -> _Mirrored | None:
        """The table of a collection with changes, which is made if it is new; None if it is not mirrored."""
        mirrored = self._tables.get(namespace)
        if mirrored is not None:
            return mirrored
        if collection.emptied or collection.replaced:
            self._refused.discard(namespace)
        if collection.is_refused:
            self._refused.add(namespace)
        elif namespace not in self._refused and (collection.replaced or not collection.emptied):
            facts = self._source.collections.collections(namespace.partition(".")[0])
            kinds = {each.namespace: each for each in facts}
            if namespace in kinds and kinds[namespace].why_not is not None:
                self._refuse(kinds[namespace])
        return None if namespace in self._refused else self._add(namespace)

    def _is_lost(self, namespace: str, collection: CollectionChanges) -> bool:
        """Whether what has the name of a mirrored collection now cannot be mirrored."""
        is_replaced = collection.replaced > collection.emptied
        return collection.is_refused or (
            is_replaced and not _is_copied(self._source.collections.facts_of(namespace))
        )

    def vacuum(self) -> int:
        """Delete old files of all tables."""
        grace = self._settings.grace_seconds
        tables = list(self.tables.values())
        tables += [dead_letters_of(table) for table in tables if table.columns.is_given]
        return sum(table.vacuum(grace) for table in tables)


def _is_copied(facts: CollectionFacts | None) -> bool:
    """Whether a collection can be copied; if not, the changes will say what became of it."""
    return facts is None or facts.why_not is None
