"""The parts that a plan is made of: stages in a row, with the state of one run."""

from collections.abc import Sequence

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent, EventKind
from tailrace.events.entry_reader import EntryReader, InsertedDocuments
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.oplog_match import OplogMatch
from tailrace.events.stages.render import Shape, render, render_once
from tailrace.events.stages.resume_point import ResumePoint
from tailrace.events.stages.stage import Batch, Row, Stage, run_stages
from tailrace.events.stages.transform.document import Transform
from tailrace.events.stages.unwind_transaction import UnwindTransaction
from tailrace.events.stages.visibility import EveryEntry


class SharedPart:
    """Raw entries of one shard to its events."""

    def __init__(self, match: OplogMatch, unwind: UnwindTransaction, transform: Transform) -> None:
        self._match = match
        self._unwind = unwind
        self._transform = transform

    @property
    def scanned(self) -> int:
        """Cluster time of the newest entry read."""
        return self._match.scanned

    def __call__(self, batch: Batch[bytes]) -> Batch[ChangeEvent]:
        return self._transform(self._unwind(self._match(batch)))

    def transform(self, batch: Batch[OplogEntry]) -> Batch[ChangeEvent]:
        """Run the last of the three only, for operations of a history: they were matched and unwound."""
        return self._transform(batch)


class ViewPart:
    """Events in token order to what one stream shows."""

    def __init__(
        self,
        resume: ResumePoint,
        event_stages: Sequence[Stage[ChangeEvent, ChangeEvent]],
        shape: Shape,
        row_stages: Sequence[Stage[Row, Row]],
        *,
        shares_events: bool = False,
    ) -> None:
        self.resume = resume
        self._event_stages = event_stages
        self._shape = shape
        self._row_stages = row_stages
        self._shares_events = shares_events

    def __call__(self, batch: Batch[ChangeEvent]) -> Batch[Row]:
        return run_stages(self._render(run_stages(batch, self._event_stages)), self._row_stages)

    def _render(self, batch: Batch[ChangeEvent]) -> Batch[Row]:
        rows: list[Row] = []
        keep = rows.append
        shape = self._shape
        render_shown = render_once if self._shares_events else render
        version = self.resume.stream_version
        token = self.resume.token
        # An older client token is the exception: only then do versions differ between events.
        version_of = self.resume.version_of if token is not None and token.version != version else None
        try:
            for event in batch.items:
                if version_of is not None:
                    version = version_of(event)
                keep(Row(event, version, render_shown(event, shape, version)))
        except CommandError as error:
            return batch.having(rows, error)
        return batch.having(rows)


class DeploymentPart:
    """Entries of one shard to canonical events: the shared part, once for all streams of a deployment."""

    def __init__(self, shard: str, lookups: Lookups, *, marks_end: bool = False) -> None:
        everything = EveryEntry()
        self._reader = EntryReader()
        self._visible = everything
        self._unwind = UnwindTransaction(everything, self._reader, lookups.entry, marks_end=marks_end)
        self._transform = Transform(shard=shard)

    def read(self, raw: bytes) -> OplogEntry:
        """Return the entry whose BSON this is."""
        return self._reader.read(raw)

    def inserts(self, entry: OplogEntry) -> tuple[EventKind, InsertedDocuments] | None:
        """Return the inserts of an entry, if it is a batch of plain inserts into one collection."""
        inserted = self._reader.read_inserts(entry)
        return None if inserted is None else (self._transform.insert_kind(inserted.head), inserted)

    def events(self, entry: OplogEntry) -> Batch[ChangeEvent]:
        """Return everything that happened in one entry."""
        if not (self._visible.sees_plain(entry.head) or self._visible.sees(entry)):
            return Batch([])
        return self._transform(self._unwind(Batch([entry])))

    def events_of(self, entries: Sequence[OplogEntry]) -> Batch[ChangeEvent]:
        """Return the same for many entries at once, which takes less time for each."""
        sees_plain, sees = self._visible.sees_plain, self._visible.sees
        visible = [entry for entry in entries if sees_plain(entry.head) or sees(entry)]
        return self._transform(self._unwind(Batch(visible)))


def only_types(types: frozenset[str]) -> Stage[ChangeEvent, ChangeEvent]:
    """Return the stage that drops events of other types."""

    def drop_others(batch: Batch[ChangeEvent]) -> Batch[ChangeEvent]:
        for event in batch.items:
            if event.kind.operation_type not in types:
                return batch.having([e for e in batch.items if e.kind.operation_type in types])
        return batch

    return drop_others
