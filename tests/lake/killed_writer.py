"""The processes that `test_kill.py` kills: one builds a history interval by interval, one compacts it."""

from collections.abc import Sequence
from pathlib import Path

from tailrace.events.change_event import ChangeEvent
from tailrace.lake.commit import commit
from tailrace.lake.compaction import compact
from tailrace.lake.rows import RowBuilder
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tailrace.lake.writer import write_files
from tests.lake.stored import canonical_events
from tests.support.workload import generate

PIECE = 6


def events_of(seed: int) -> list[ChangeEvent]:
    return canonical_events(generate(seed, operations=160))


def ends_of(events: Sequence[ChangeEvent]) -> list[int]:
    """Return the ends of the intervals, the same for every process, as from a checkpoint."""
    return [event.entry.ts for event in events[PIECE::PIECE]] + [events[-1].entry.ts]


def build(folder: str, seed: int) -> None:
    """Build the intervals after the end of the history."""
    events = events_of(seed)
    table = HistoryTable.open(folder)
    builder = RowBuilder()
    for through in ends_of(events):
        after = table.through
        if through <= after:
            continue
        rows = builder.batch([event for event in events if after < event.entry.ts <= through])
        name = f"interval-{after:016x}-{through:016x}"
        files = write_files(folder, [rows], name=name, target_bytes=2000, row_group_rows=3)
        commit(table, files, after=after, through=through)


def compact_and_vacuum(folder: str) -> None:
    """Compact and vacuum the table until killed."""
    table = HistoryTable.open(Path(folder))
    while True:
        compact(table, min_files=2, small_bytes=40_000)
        vacuum(table, grace_seconds=-1)
