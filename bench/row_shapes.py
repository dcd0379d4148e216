"""Processor time for an entry, from raw entries to rows of the history, by the shape of the entries.

One process, without reading and without Parquet; a row inside of a transaction or a batch counts as one.
Where the compiled kernel is installed, numpy and the kernel take turns.
"""

import gc
import os
from collections.abc import Sequence
from dataclasses import replace
from time import process_time

from tailrace.events.change_event import ChangeEvent
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.parts import DeploymentPart
from tailrace.lake.bulk.kernel import NATIVE, NUMPY, VARIABLE, compiled_kernel, kernel_in_words
from tailrace.lake.bulk.raw_entries import RawEntries
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
    kernels = [NUMPY] if compiled_kernel() is None else [NUMPY, NATIVE]
    print(f"row-shapes: {ENTRIES:,} rows of each shape, slices of {SLICE_ENTRIES:,} entries, processor time")
    if NATIVE not in kernels:
        print(f"  without the compiled kernel: {kernel_in_words()}")
    for name, mix in SHAPES.items():
        size = mix.transaction_size if mix.transactions == 1 else mix.batch_size if mix.batches == 1 else 1
        entries = list(generate_bulk(seed=7, count=ENTRIES // size, mix=mix))
        starts = range(0, len(entries), SLICE_ENTRIES)
        slices = [RawEntries.of(entries[start : start + SLICE_ENTRIES]) for start in starts]
        found: dict[str, list[tuple[int, float]]] = {kernel: [] for kernel in kernels}
        for _ in range(ROUNDS):
            for kernel in kernels:
                os.environ[VARIABLE] = kernel
                found[kernel].append(seconds_for(slices))
        rows = found[NUMPY][0][0]
        shown = [
            f"{kernel} {min(seconds for _, seconds in runs) / rows * 1e6:6.2f}"
            for kernel, runs in found.items()
        ]
        print(f"  {name:<34}{'   '.join(shown)} µs a row", flush=True)
