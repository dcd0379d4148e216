"""Write events of generated histories into tables, and read them back."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tailrace.events.change_event import ChangeEvent
from tailrace.events.stages.add_pre_image import PreImages
from tailrace.events.stages.parts import DeploymentPart
from tailrace.lake.deferred_entries import events_or_deferred
from tailrace.lake.event_reader import EventReader
from tailrace.lake.rows import RowBuilder
from tailrace.lake.table import HistoryTable
from tailrace.lake.writer import write_files
from tests.support.history import History


def canonical_events(history: History, shard: str = "") -> list[ChangeEvent]:
    """Return the canonical events of a history with their pre-images, as the pipeline builds them."""
    lookups = history.lookups()
    part = DeploymentPart(shard, lookups, marks_end=True)
    events = []
    for raw in history.entries:
        for event in events_or_deferred(part, part.read(raw), shard):
            event.pre_image = (
                PreImages([event], {event.shard: lookups}).of(event)
                if event.document_key is not None
                else None
            )
            events.append(event)
    return events


def read_back(rows: Sequence[pa.RecordBatch]) -> list[ChangeEvent]:
    reader = EventReader()
    return [event for batch in rows for event in reader.events(batch)]


def through_memory(events: Sequence[ChangeEvent]) -> list[ChangeEvent]:
    return read_back([RowBuilder().batch(events)])


def fill(table: HistoryTable, events: Sequence[ChangeEvent], pieces: int = 1) -> None:
    """Commit events in pieces of about equal size; events of one cluster time stay in one piece."""
    from tailrace.lake.commit import commit

    builder = RowBuilder()
    start = 0
    for piece in range(pieces):
        end = len(events) if piece == pieces - 1 else len(events) * (piece + 1) // pieces
        while 0 < end < len(events) and events[end].entry.ts == events[end - 1].entry.ts:
            end += 1
        if end <= start:
            continue
        name = f"piece-{events[start].entry.ts:016x}"
        files = write_files(table.place, [builder.batch(events[start:end])], name=name, row_group_rows=50)
        assert commit(table, files, after=table.through, through=events[end - 1].entry.ts)
        start = end


def new_table(path: Path) -> HistoryTable:
    return HistoryTable.create(path, identity="set-1", begins=0)
