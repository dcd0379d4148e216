"""One history built by the pipeline in a process of its own: ``MASTER FOLDER ENTRIES``; figures as JSON."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.spark_oplogs import write_oplogs
from tailrace.spark.oplogs.files import FilesSource
from tailrace.spark.pipeline.job import HistoryJob
from tailrace.spark.pipeline.settings import PipelineSettings
from tailrace.spark.session import build_session

WARM_UP = 30_000


def descendants(process: int) -> list[int]:
    """All processes below one."""
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


def workers_peak() -> int:
    """The most memory that one of Spark's Python workers ever held, in MB."""
    peak = 0
    for process in descendants(os.getpid()):
        try:
            if b"pyspark.daemon" not in Path(f"/proc/{process}/cmdline").read_bytes():
                continue
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        peak = max(
            [peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))]
        )
    return peak >> 10


def main(master: str, folder: str, entries: int) -> None:
    oplogs = Path(folder, "oplogs")
    source = FilesSource({path.stem: [str(path)] for path in sorted(oplogs.glob("*.bson"))})
    spark = build_session(master, "tailrace bench")
    with tempfile.TemporaryDirectory() as small:
        first = FilesSource(write_oplogs(Path(small), WARM_UP))
        HistoryJob(first, PipelineSettings(Path(small, "history"), interval=None)).run(spark)
    early_peak = workers_peak()
    history = Path(folder, f"history of {master}")
    job = HistoryJob(source, PipelineSettings(history, interval=None))
    began = time.perf_counter()
    job.run(spark)
    seconds = time.perf_counter() - began
    figures = {
        "seconds": seconds,
        "rate": entries / seconds,
        "rows": sum(file.rows for file in job.table.files),
        "files": [str(history / file.path) for file in job.table.files],
        "early_peak": early_peak,
        "peak": workers_peak(),
    }
    spark.stop()
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
