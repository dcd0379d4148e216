"""Entries per second from archived oplogs to the history, against reading and writing the finished rows.

The floor is the time that pyarrow needs to read the finished rows and to write them again, in as many
processes: no program that writes these files can be faster. ``--full`` uses two million entries. Where the
compiled kernel is installed, the history is built with it and without it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import print_goal
from bench.spark_history_job import WARM_UP
from bench.spark_oplogs import SHARDS, write_oplogs
from tailrace.lake.bulk.kernel import NATIVE, NUMPY, VARIABLE, compiled_kernel, kernel_in_words
from tailrace.lake.writer import write_files

FULL_VARIABLE = "TAILRACE_BENCH_FULL"
ENTRIES, ENTRIES_FULL = 300_000, 2_000_000
WORKERS = 2


def copy_file(path: str, target: str) -> tuple[int, float]:
    """Read a file of the history and write its rows again; return the rows and the processor time."""
    pa.set_cpu_count(1)
    began = time.process_time()
    with pq.ParquetFile(path) as file:
        groups = (file.read_row_group(number, use_threads=False) for number in range(file.num_row_groups))
        batches = (batch for group in groups for batch in group.to_batches())
        rows = sum(added.rows for added in write_files(target, batches, name=Path(path).stem))
    return rows, time.process_time() - began


def floor(paths: Sequence[str], target: Path, workers: int) -> tuple[int, float, float]:
    """Copy files; return rows, seconds and processor seconds."""
    target.mkdir()
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        list(pool.map(copy_file, paths[:workers], [str(target)] * workers))  # starts the processes
        began = time.perf_counter()
        done = list(pool.map(copy_file, paths, [str(target)] * len(paths)))
        seconds = time.perf_counter() - began
    return sum(rows for rows, _ in done), seconds, sum(worked for _, worked in done)


def build(folder: Path, workers: int, entries: int, kernel: str = NUMPY) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "bench.spark_history_job",
        f"local[{workers}]",
        str(folder),
        str(entries),
    ]
    environment = os.environ | {VARIABLE: kernel}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    entries = ENTRIES_FULL if os.environ.get(FULL_VARIABLE) else ENTRIES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "oplogs").mkdir()
        paths = write_oplogs(folder / "oplogs", entries)
        size = sum(Path(path).stat().st_size for of_shard in paths.values() for path in of_shard)
        print(f"spark-history: {entries:,} entries of {size / entries:.0f} bytes, {SHARDS} shards")
        two = build(folder, WORKERS, entries)
        rows, seconds, worked = floor(two["files"], folder / "copy", WORKERS)
        _, seconds_alone, _ = floor(two["files"], folder / "copy alone", 1)
        compiled = None if compiled_kernel() is None else build(folder, WORKERS, entries, NATIVE)
        one = build(folder, 1, entries)
        counts = {rows, *(run["rows"] for run in (two, one, compiled) if run is not None)}
        if len(counts) > 1:
            raise SystemExit(f"the runs disagree about the rows: {sorted(counts)}")
    floor_rate = entries / seconds
    print(f"  floor           {floor_rate:12,.0f} entries/s: {rows:,} rows read and written by pyarrow")
    print(f"  two workers     {two['rate']:12,.0f} entries/s")
    print(f"  one worker      {one['rate']:12,.0f} entries/s")
    print_goal("two workers against the floor", two["rate"] / floor_rate, "0.20, better 0.50")
    print_goal("two workers against one", two["rate"] / one["rate"], "1.60")
    # Two cores of a shared machine often do less than twice the work of one: this is the most to expect.
    print(f"  the floor, two processes against one  {seconds_alone / seconds:.2f}")
    # Other load on the machine affects these figures least.
    print_goal("in processor time, numpy", worked / two["processor"], "0.60")
    if compiled is None:
        print(f"  without the compiled kernel: {kernel_in_words()}")
    else:
        print_goal("in processor time, compiled kernel", worked / compiled["processor"], "1.00")
        print_goal("two workers with it, by the clock", compiled["rate"] / floor_rate, "0.60")
    growth = two["peak"] / max(two["early_peak"], 1)
    print(f"  largest worker  {two['peak']:12,} MB, {growth:.2f} times what {WARM_UP:,} entries take")
