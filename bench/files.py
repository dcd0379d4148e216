"""A history with many files: what a commit, a checkpoint and opening it cost, how much memory, and planning.

The table is synthetic: its log has a million files, and hardly any of them exists. Each step is measured in a
new process. The short run has a tenth of the files. A query is planned on a table of a thousand files that
have a million rows each.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

from bench.figures import print_goal, print_times
from tailrace.lake.commit import commit
from tailrace.lake.data_file import AddedFile
from tailrace.lake.log_writer import make_checkpoint, write_commit
from tailrace.lake.positions import THROUGH, position_transactions
from tailrace.lake.table import HistoryTable

FILES, FILES_FULL = 100_000, 1_000_000
FILES_OF_PLAN: Final = 1_000
ROWS: Final = 1_000_000
"""Rows of a file; only the log says so"""
_START: Final = 1_700_000_000
_ADDED: Final = 5_000
_COMMITS: Final = 300
_LATER: Final = 100
"""Commits after the checkpoint, as an open table finds them"""


def synthetic_files(start: int, stop: int) -> Iterator[AddedFile]:
    """Files one after another, each of a second, with tokens of inserts."""
    chooser = Random(start)
    for number in range(start, stop):
        second = _START + number
        first, last = (
            f"2B042C0100296E5A1004{chooser.randbytes(16).hex().upper()}463C6F7065726174696F6E54797065003C696E"
            f"736572740046646F63756D656E744B65790046645F696400{chooser.randbytes(12).hex().upper()}000004"
            for _ in range(2)
        )
        yield AddedFile(
            path=f"{second - 1:08x}ffffffff-{second:08x}ffffffff-{number % 64:04d}-0000.parquet",
            size=128 << 20,
            rows=ROWS,
            first_token=f"82{second:08X}00000001{first}",
            last_token=f"82{second:08X}000F4240{last}",
            first_wall=second * 1000,
            last_wall=second * 1000 + 999,
            walls_missing=0,
            modified=second * 1000 + 2000,
            commands=0,
        )


def build(folder: Path, files: int) -> None:
    """A table of many files, with a checkpoint and some commits after it."""
    table = HistoryTable.create(folder, identity="synthetic", begins=0)
    for start in range(0, files, _ADDED):
        add(table, start, min(start + _ADDED, files))
    make_checkpoint(table)
    for number in range(files, files + _LATER):
        add(table, number, number + 1)


def add(table: HistoryTable, start: int, stop: int) -> None:
    end = _START + stop - 1 << 32 | 0xFFFFFFFF
    files = list(synthetic_files(start, stop))
    assert write_commit(table, "WRITE", added=files, transactions=position_transactions(THROUGH, end))


def opened(folder: Path) -> HistoryTable:
    """Open the table; print how long that takes and the memory that the process had at most."""
    before = _peak()
    started, used = perf_counter(), process_time()
    table = HistoryTable.open(folder)
    print(perf_counter() - started, process_time() - used, before, _peak())
    return table


def make_commits(folder: Path) -> None:
    """Commit small batches, and print how long each takes."""
    table = opened(folder)
    count = len(table.files)
    for number in range(count, count + _COMMITS):
        files = list(synthetic_files(number, number + 1))
        (folder / files[0].path).touch()
        started, used = perf_counter(), process_time()
        assert commit(table, files, after=table.through, through=_START + number << 32 | 0xFFFFFFFF)
        print(perf_counter() - started, process_time() - used)


def checkpoint(folder: Path) -> None:
    """Make a checkpoint; print how long that takes, its size and the memory that the process had at most."""
    table = HistoryTable.open(folder)
    started, used = perf_counter(), process_time()
    make_checkpoint(table)
    seconds, processor = perf_counter() - started, process_time() - used
    newest = max((folder / "_delta_log").glob("*.checkpoint.parquet"))
    print(seconds, processor, newest.stat().st_size / 1e6, _peak())


def plan(folder: Path) -> None:
    """Plan a query as Spark's planner does; print how long that takes and how many tasks it has."""
    from tailrace.pipeline.options.event_options import read_options
    from tailrace.pipeline.stream_batches import StreamBatches

    started, used = perf_counter(), process_time()
    stream = StreamBatches(read_options({"history": str(folder), "database": "shop", "collection": "orders"}))
    pieces = stream.whole()
    print(perf_counter() - started, process_time() - used, len(pieces))


def _peak() -> float:
    """The most memory that this process had, in MiB; `getrusage` counts that of its parent, too."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) / 1024


def _child(step: str, folder: Path) -> list[list[float]]:
    command = [sys.executable, "-m", "bench.files", step, str(folder)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [[float(word) for word in line.split()] for line in lines]


def main() -> None:
    from bench.spark_history import FULL_VARIABLE  # not in the processes that are measured

    files = FILES_FULL if os.environ.get(FULL_VARIABLE) else FILES
    print(f"files: a history of {files:,} files")
    with TemporaryDirectory(prefix="tailrace-bench-") as place:
        folder = Path(place) / "history"
        build(folder, files)
        ((open_seconds, open_used, before, open_peak),) = _child("open", folder)
        _, *commits = _child("commit", folder)
        ((written_seconds, written_used, megabytes, written_peak),) = _child("checkpoint", folder)
        few = Path(place) / "few"
        build(few, FILES_OF_PLAN)
        ((plan_seconds, plan_used, pieces),) = _child("plan", few)
    print_times("commit", [seconds for seconds, _ in commits])
    print_goal("commit, median", median(seconds for seconds, _ in commits) * 1000, "below 5", " ms")
    print_goal("  of it processor time", median(used for _, used in commits) * 1000, "below 5", " ms")
    print_goal("open", open_seconds, "below 5", " s")
    print_goal("  of it processor time", open_used, "below 5", " s")
    print_goal("  peak memory of the process", open_peak, f"below 600, {before:.0f} before", " MiB")
    print(f"  a checkpoint, beside commits      {written_seconds:8.2f} s    {megabytes:.0f} MB")
    print(f"    of it processor time            {written_used:8.2f} s")
    print_goal("  peak memory of the process", written_peak, "below 600", " MiB")
    print_goal("plan", plan_seconds, "below 1", " s")
    print_goal("  of it processor time", plan_used, "below 1", " s")
    print(f"    of a query on {FILES_OF_PLAN * ROWS:,} rows, with {pieces:.0f} tasks")


if __name__ == "__main__":
    {"open": opened, "commit": make_commits, "checkpoint": checkpoint, "plan": plan}[sys.argv[1]](
        Path(sys.argv[2])
    )
