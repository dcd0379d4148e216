"""Build one history in a process: ``MASTER FOLDER ENTRIES``; prints figures as JSON."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bench.spark_oplogs import write_oplogs
from tailrace.lake.bulk.kernel import kernel_in_words
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.archives.files import FilesSource
from tailrace.spark.command_sessions import start_session
from tailrace.spark.history_job import HistoryJob

WARM_UP = 150_000
"""Enough that every task has slices of the usual size: memory should not grow after that."""


def descendants(process: int) -> list[int]:
    """The children of a process, and theirs."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
            except OSError:
                continue  # it has ended
            children.setdefault(parent, []).append(int(folder.name))
    found = list(children.get(process, []))
    for child in found:
        found += children.get(child, [])
    return found


def workers() -> Iterator[Path]:
    """The folders of Spark's Python workers in /proc."""
    for process in descendants(os.getpid()):
        folder = Path(f"/proc/{process}")
        with suppress(OSError):
            if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                yield folder


def workers_peak() -> int:
    """The highest peak of memory of one worker, in MB."""
    peak = 0
    for folder in workers():
        with suppress(OSError):
            status = (folder / "status").read_text().splitlines()
            peak = max([peak, *(int(line.split()[1]) for line in status if line.startswith("VmHWM"))])
    return peak >> 10


def workers_seconds() -> float:
    """The processor time of all workers so far."""
    return seconds_of(workers())


def seconds_of(processes: Iterable[Path]) -> float:
    """The processor time of some processes, by their folders in /proc, and of their children that ended."""
    ticks = 0
    for folder in processes:
        with suppress(OSError):
            times = (folder / "stat").read_text().rpartition(") ")[2].split()[11:15]
            ticks += sum(map(int, times))
    return ticks / os.sysconf("SC_CLK_TCK")


def main(master: str, folder: str, entries: int) -> None:
    oplogs = Path(folder, "oplogs")
    source = FilesSource({path.stem: [str(path)] for path in sorted(oplogs.glob("*.bson"))})
    spark = start_session(master, {})
    with tempfile.TemporaryDirectory() as small:
        first = FilesSource(write_oplogs(Path(small), WARM_UP))
        HistoryJob(first, PipelineSettings(Path(small, "history"), interval=None)).run(spark)
    early_peak = workers_peak()
    history = Path(folder, f"history of {master}, {kernel_in_words()}")
    job = HistoryJob(source, PipelineSettings(history, interval=None))
    began, worked = time.perf_counter(), workers_seconds()
    job.run(spark)
    seconds, worked = time.perf_counter() - began, workers_seconds() - worked
    figures = {
        "seconds": seconds,
        "rate": entries / seconds,
        "processor": worked,
        "rows": sum(file.rows for file in job.table.files),
        "files": [str(history / file.path) for file in job.table.files],
        "early_peak": early_peak,
        "peak": workers_peak(),
    }
    spark.stop()
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
