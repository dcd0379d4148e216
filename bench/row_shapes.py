"""Processor time for an entry, from raw entries to rows of the history, by the shape of the entries.

One process, without reading and without Parquet; a row inside of a transaction or a batch counts as one.
"""

import gc
from collections.abc import Sequence
from dataclasses import replace
from time import process_time

from tailrace.events.change_event import ChangeEvent
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.parts import DeploymentPart
from tailrace.lake.bulk.rows import BulkRows
from tailrace.pipeline.history.build import SLICE_ENTRIES
from tests.support.bulk import BulkMix, generate_bulk

ENTRIES = 40_000
ROUNDS = 3
_ONE = BulkMix(transactions=0, batches=0, collections=1, retryable=1)

SHAPES = {
    "retryable inserts": replace(_ONE, inserts=1, updates=0),
    "retryable updates": replace(_ONE, inserts=0, updates=1),
    "retryable deletes": replace(_ONE, inserts=0, updates=0),
    "inserts without a session": replace(_ONE, inserts=1, updates=0, retryable=0),
    "transactions of 4": BulkMix(transactions=1, collections=1),
    "vectored inserts of 10": BulkMix(transactions=0, batches=1, collections=1),
    "the mix, 1 collection": BulkMix(collections=1),
    "the mix, 64 collections": BulkMix(collections=64),
    "the mix, 400 collections": BulkMix(collections=400),
}


def seconds_for(slices: Sequence[Sequence[bytes]]) -> tuple[int, float]:
    """Return the rows of some slices and the processor time that making them takes."""
    part = DeploymentPart("", Lookups(), marks_end=True)

    def events_of(_: str, raws: Sequence[bytes]) -> list[ChangeEvent]:
        return part.events_of(list(map(part.read, raws))).items

    BulkRows(events_of, marks_end=True).batch({"": slices[0][:100]})  # imports what pyarrow imports late
    rows = BulkRows(events_of, marks_end=True)
    gc.collect()
    began = process_time()
    count = sum(rows.batch({"": entries}).num_rows for entries in slices)
    return count, process_time() - began


def main() -> None:
    print(f"row-shapes: {ENTRIES:,} rows of each shape, slices of {SLICE_ENTRIES:,} entries, processor time")
    for name, mix in SHAPES.items():
        size = mix.transaction_size if mix.transactions == 1 else mix.batch_size if mix.batches == 1 else 1
        entries = list(generate_bulk(seed=7, count=ENTRIES // size, mix=mix))
        slices = [entries[start : start + SLICE_ENTRIES] for start in range(0, len(entries), SLICE_ENTRIES)]
        best = min((seconds_for(slices) for _ in range(ROUNDS)), key=lambda run: run[1])
        print(f"  {name:<34}{best[1] / best[0] * 1e6:8.2f} µs a row", flush=True)
