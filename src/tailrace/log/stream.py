"""One stream on an event log: the only driver of the view part.

The stream has a place in the log. It reads the items after it, pre-filters them by their entries, and sends
their events through the view part of its plan.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.oplog_entry import PLAIN, OplogEntry
from tailrace.events.scope import ScopeKind
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.parts import SharedPart
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.stage import Batch, VerbatimRow
from tailrace.events.stages.unwind_transaction import holds_operations
from tailrace.lake.deferred_entries import is_deferred
from tailrace.log.archive_log import SelectedEvents
from tailrace.log.event_log import EntryItem, EventLog, LogItem, Slice
from tailrace.log.shared_output import AnyRow, OutputBatch
from tailrace.log.stream_output import StreamOutput
from tailrace.log.waiting import Waiter
from tailrace.pacing import tick

_VIEWS: Final = "system.views"
_ENOUGH: Final = 1000
"""Events to process at once: one slice of the log can hold very many."""


class LogStream:
    """The rows one stream shows, in order.

    Without a start point in its options, a stream begins after what the log holds when it is opened.
    """

    def __init__(self, plan: Plan, log: EventLog, lookups: Mapping[str, Lookups]) -> None:
        """``lookups`` are those of each shard; more may be added later."""
        self._plan = plan
        self._log = log
        log.check_plan(plan)
        self._visible = plan.entry_filter()
        begin = log.begin
        view = plan.view_part(lookups, shares_events=log.is_shared)
        self._output = StreamOutput(plan, view, begin)
        self._resume = view.resume
        # For what this stream does not show like the others.
        self._lookups = lookups
        self._own_parts: dict[str, SharedPart] = {}
        self._keeps_views = plan.scope.kind is ScopeKind.COLLECTION and plan.scope.coll == _VIEWS
        self._own_noops = plan.options.supported_events is not None
        self._shows_runs = plan.shows_inserts_verbatim
        self._will_show_runs = plan.shows_inserts_verbatim_once_resumed
        self._expanded = plan.options.show_expanded_events
        start = plan.start
        self._is_checked = start is None
        self._scanned = max((begin if start is None else start) - 1, 0)
        self._waiter = Waiter(plan.scope, self._visible)
        key = plan.output_key if log.is_shared else None
        self._group = None if key is None else log.shared_output.group(key)
        self._only_inserts = plan.alters_changes

    @property
    def is_ended(self) -> bool:
        """Whether an error or an invalidation has ended the stream; there may be rows before it."""
        return self._output.is_ended

    @property
    def is_done(self) -> bool:
        """Whether the stream was invalidated and everything was taken."""
        return self._output.is_done

    @property
    def has_resumed(self) -> bool:
        """Whether the event that the client's token names was met; True if the token names none."""
        return self._output.has_resumed

    @property
    def position(self) -> bytes:
        """The token document of the place after what was taken."""
        return self._output.position(self._scanned)

    @property
    def is_behind(self) -> bool:
        """Whether there is something this stream has not shown or not read."""
        return bool(self._output) or self._log.has_more(self._scanned)

    @property
    def has_news(self) -> bool:
        """Whether `take` may return rows or raise an error; if not, it is time to wait."""
        return not self._is_checked or self._log.has_more(self._scanned) or self._output.has_news

    @property
    def holds_rows(self) -> bool:
        """Whether finished rows wait to be taken."""
        return bool(self._output)

    @property
    def is_failing(self) -> bool:
        """Whether the next `take` raises the stream's error: everything before it was taken."""
        return self._output.is_failing

    @property
    def must_fetch(self) -> bool:
        """Whether `take` or `work_ahead` would block on a disk: await `fetch` first."""
        return not (self._output or self._log.is_loaded(self._scanned))

    async def fetch(self) -> bool:
        """Load what the next `take` reads into memory.

        Returns whether something was skipped instead that this stream does not see; then it has to be called
        again if it `must_fetch` still.
        """
        before = self._scanned
        self._scanned = await self._log.fetch(before, self._visible)
        return self._scanned > before

    def take(self, count: int, size: int, *, overhead: int = 0, at_least: int = 1) -> list[AnyRow]:
        """Return the next rows, at most ``count`` and ``size`` bytes; ``at_least`` of them at any size.

        ``overhead`` is what a row takes besides its own bytes. Reads no more than one slice of the log; if
        `is_behind` afterwards, there may be more at once. Raises the stream's error after the rows before it
        were taken.
        """
        if not self._is_checked:
            self._log.check_start(self._plan.start or 0)
            self._is_checked = True
        output = self._output
        if not output and self._log.has_more(self._scanned) and not output.is_ended:
            self._advance()
        return output.take(count, size, overhead=overhead, at_least=at_least)

    def work_ahead(self, size: int) -> bool:
        """Prepare rows for the next `take`, up to about ``size`` bytes; return whether there is more to do.

        Reads no more than one slice of the log.
        """
        output = self._output
        if output.is_ended or output.held_bytes >= size or not self._log.has_more(self._scanned):
            return False
        self._advance()
        return True

    def _advance(self) -> None:
        """Add what the next slice of the log holds for this stream to the output."""
        place = self._scanned
        group = self._group
        try:
            self._log.check_place(place)
            batch = None if group is None else group.batches.get(place)
            if batch is None:
                rows = self._next_rows(self._log.read(place))
                batch = OutputBatch(rows, self._scanned)
                # Another stream may have come here during a tick of the filter.
                if group is not None and rows.failure is None and place not in group.batches:
                    self._log.shared_output.store(group, place, batch)
        except CommandError as error:
            self._output.fail(error)
            return
        self._scanned = batch.scanned
        self._output.add(batch.shown)

    def _next_rows(self, found: Slice) -> Batch[AnyRow]:
        """The rows of a slice, or of its beginning; moves the stream after them."""
        rows: list[AnyRow] = []
        if self._will_show_runs and not self._shows_runs:
            self._shows_runs = self._resume.found and self._scanned >= (self._plan.start or 0)
        items = self._show_runs(found, rows)
        if rows or (found.items and not items):
            return Batch(rows)
        return self._output.view(self._select(Slice(items, found.scanned)))

    def _show_runs(self, found: Slice, shown: list[AnyRow]) -> Sequence[LogItem]:
        """Show the runs at the beginning of a slice; returns what is left of it, if there is room."""
        if not self._shows_runs:
            return found.items
        for position, item in enumerate(found.items):
            rows = self._rows_of(item)
            if rows is None:
                return () if shown else found.items[position:]
            shown += rows
            is_last = position == len(found.items) - 1
            self._scanned = found.scanned if is_last else item.ts
            if len(shown) >= _ENOUGH:
                break
        return ()

    def _rows_of(self, item: LogItem) -> Sequence[VerbatimRow] | None:
        """What is shown of a run, nothing if the stream does not see it; None if the item is no run."""
        run = self._log.run_of(item)
        if run is None:
            return None
        if isinstance(item, EntryItem) and not self._visible.sees(item.entry):
            return ()
        return run.seen_by(self._visible.scope, expanded=self._expanded, only_inserts=self._only_inserts)

    def _select(self, found: Slice) -> Batch[ChangeEvent]:
        """The events of a slice that pass the pre-filter; the slice is left where there are enough."""
        selected: list[ChangeEvent] = []
        for item in found.items:
            if len(selected) >= _ENOUGH or (selected and self._shows_runs and self._log.run_of(item)):
                return Batch(selected)
            tick()
            self._scanned = item.ts
            if isinstance(item, EntryItem):
                ended = self._select_logged(item, selected)
            elif isinstance(item, SelectedEvents):
                ended = self._select_all(item, selected)
            else:
                ended = self._select_events(item, selected)
            if ended is not None:
                return ended
        self._scanned = found.scanned
        return Batch(selected)

    def _select_logged(self, item: EntryItem, selected: list[ChangeEvent]) -> Batch[ChangeEvent] | None:
        """Add what this stream may see of an entry; returns the end of the stream, if that is here."""
        entry = item.entry
        visible = self._visible
        extras = entry.extras
        is_usual = extras is PLAIN or not (extras.from_migrate or extras.is_timeseries)
        decision = visible.sees_plain(entry.head) if is_usual else None
        try:
            if not (visible.sees(entry) if decision is None else decision):
                return None
            is_batch = holds_operations(entry)
            # Where bytes show that an operation cannot match, there is no need for an event of each.
            is_own = self._is_own(entry) or (is_batch and visible.knows_bytes)
            events = None if is_own else item.events or self._log.events_of(item)
            if events is None:
                own = self._own_part(item.shard)(Batch([entry.raw]))
                selected += own.items
                if own.failure is not None:
                    return Batch(selected, own.failure, own.failed_at)
            elif is_batch:
                for event in events:
                    if visible.may_show(event):
                        selected.append(event)
            else:
                selected += events
        except CommandError as error:
            return Batch(selected, error, entry.ts)
        return None

    def _select_all(self, item: SelectedEvents, selected: list[ChangeEvent]) -> Batch[ChangeEvent] | None:
        """The same for events that have passed this stream's pre-filter."""
        batch = item.batch
        selected += batch.items
        return None if batch.failure is None else batch.having(selected)

    def _select_events(self, item: LogItem, selected: list[ChangeEvent]) -> Batch[ChangeEvent] | None:
        """The same for an item that has events, or deferred entries in their place."""
        visible = self._visible
        for event in self._log.events_of(item) or ():
            entry = event.entry
            try:
                if not (visible.sees(entry) if is_deferred(event) else visible.may_show(event)):
                    continue
                if not is_deferred(event) and not self._is_own(entry):
                    selected.append(event)
                    continue
                own = self._own_events(event)
            except CommandError as error:
                return Batch(selected, error, entry.ts)
            selected += own.items
            if own.failure is not None:
                return Batch(selected, own.failure, own.failed_at)
        return None

    def _own_events(self, event: ChangeEvent) -> Batch[ChangeEvent]:
        """What only this stream makes of a deferred entry, or of an operation."""
        if is_deferred(event):
            return self._own_part(event.shard)(Batch([event.entry.raw]))
        return self._own_part(event.shard).transform(Batch([event.entry]))

    def _own_part(self, shard: str) -> SharedPart:
        part = self._own_parts.get(shard)
        if part is None:
            part = self._own_parts[shard] = self._plan.shared_part(shard, self._lookups[shard])
        return part

    def _is_own(self, entry: OplogEntry) -> bool:
        """Whether this stream does not show an entry as others do."""
        if self._keeps_views:
            return True
        return self._own_noops and entry.head.op == "n"

    async def wait(self, seconds: float) -> bool:
        """Wait until there may be more; return whether that was before the time was over.

        If it was not, nothing that the log holds now is for this stream: it was never woken.
        """
        is_woken = await self._log.wait(self._waiter, seconds)
        if not is_woken:
            self._scanned = max(self._scanned, self._log.newest)
        return is_woken
