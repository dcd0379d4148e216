"""The rows that the stages and the row builder make one by one, to compare with those made many at a time."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tailrace.events.change_event import ChangeEvent
from tailrace.events.merge import order_key
from tailrace.events.stages.lookups import EntryLookup, Lookups
from tailrace.events.stages.parts import DeploymentPart
from tailrace.lake.bulk.kernel import NATIVE, NUMPY, compiled_kernel
from tailrace.lake.bulk.shared_kinds import EventsOf
from tailrace.lake.deferred_entries import events_or_deferred
from tailrace.lake.rows import RowBuilder

KERNELS = (NUMPY,) if compiled_kernel() is None else (NUMPY, NATIVE)
"""What makes rows here: laws hold for both."""
Entries = Mapping[str, Sequence[bytes]]


def general_path(
    shards: Sequence[str], find_entry: EntryLookup | None = None, *, marks_end: bool = False
) -> EventsOf:
    lookups = Lookups() if find_entry is None else Lookups(entry=find_entry)
    parts = {shard: DeploymentPart(shard, lookups, marks_end=marks_end) for shard in shards}

    def events_of(shard: str, raws: Sequence[bytes]) -> list[ChangeEvent]:
        part = parts[shard]
        return [event for raw in raws for event in events_or_deferred(part, part.read(raw), shard)]

    return events_of


def one_by_one(events_of: EventsOf, entries: Entries) -> pa.RecordBatch:
    events = [event for shard, raws in entries.items() for event in events_of(shard, raws)]
    rows = RowBuilder().batch(events)
    tokens = rows.column("token").to_pylist()
    order = sorted(range(len(events)), key=lambda row: order_key(events[row].entry.ts, tokens[row]))
    return rows.take(pa.array(order, pa.int64()))
