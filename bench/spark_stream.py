"""Rows per second of `format("tailrace")` and the MongoDB Spark Connector, from one real MongoDB, in one run.

Both drain the same changes with the same program (`spark_stream_job.py`): the columns of an event as text,
in plain local sessions, written to Parquet and to nothing. The first time counts the start of Python and what
Java has to compile; the others do not. The rows of both are compared: the same tokens in the same order.
While they read, somebody writes to another collection: the Connector ends a batch at a later change.

The Connector is measured if the folder that TAILRACE_PEERS names has `connector/` with `jars/`, those of
`mongo-spark-connector_2.12` and what it needs, and `venv/`, with the PySpark 3.5 that it is made for. Without
a real server nothing is measured. With ``--full`` there are five times as many changes.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pymongo import MongoClient

from bench import spark_stream_job
from bench.figures import print_goal
from bench.real_history import COLLECTION, DATABASE, PEERS_VARIABLE, WORKERS, changes, write
from bench.spark_history_job import descendants, seconds_of
from tailrace.lake.bulk.kernel import NATIVE, NUMPY, VARIABLE, compiled_kernel
from tests.oracle.real_server import missing_mongod, real_replica_set

COLUMNS = ("_id", "operationType", "clusterTime", "ns", "documentKey", "fullDocument", "updateDescription")
SINKS = ("parquet", "parquet", "noop")
SECONDS = 150
"""What one query may take"""
BEAT_SECONDS = 0.1


@dataclass(frozen=True)
class Drained:
    """What one program has done."""

    runs: Sequence[dict[str, Any]]
    worked: float
    """Processor seconds of the program and its children"""
    mongod: float
    """and of the server meanwhile"""
    tokens: Sequence[str]

    def rate(self, sink: str, seconds: str) -> float:
        """The best rate after the first time."""
        least: float = min(run[seconds] for run in self.runs[1:] if run["sink"] == sink)
        return changes() / least

    def show(self, title: str) -> None:
        first = self.runs[0]
        rows = changes()
        print(f"  {title}")
        print(f"    first time, Parquet {rows / first['seconds']:12,.0f} rows/s")
        for sink, name in (("parquet", "Parquet"), ("noop", "nothing")):
            whole, written = self.rate(sink, "seconds"), self.rate(sink, "written")
            print(f"    then, to {name:10} {whole:12,.0f} rows/s, without starting {written:12,.0f}")
        each = 1e6 / (len(self.runs) * rows)
        print(
            f"    processor time      {self.worked * each:12.1f} µs a row, all included; "
            f"of the server {self.mongod * each:.1f}"
        )


@contextmanager
def beats(client: MongoClient[dict[str, Any]]) -> Iterator[None]:
    """Somebody else writes, as on any deployment."""
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(BEAT_SECONDS):
            client[DATABASE]["beats"].insert_one({"at": time.time()})

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def drained(
    python: Path, request: dict[str, Any], folder: Path, server: int, environment: dict[str, str]
) -> Drained | str:
    """Run the program; return why it has not ended, or what it has done."""
    request |= {"master": f"local[{WORKERS}]", "sinks": SINKS, "seconds": SECONDS, "folder": str(folder)}
    request["schema"] = ", ".join(f"{name} string" for name in COLUMNS)
    command = [str(python), spark_stream_job.__file__, json.dumps(request)]
    variables = {**os.environ, "PYSPARK_PYTHON": str(python), **environment}
    before = seconds_of([Path(f"/proc/{server}")])
    runs: list[dict[str, Any]] = []
    worked = 0.0
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables) as program,
    ):
        assert program.stdout is not None
        for line in program.stdout:
            runs.append(json.loads(line))
            processes = [program.pid, *descendants(program.pid)]
            worked = seconds_of([Path(f"/proc/{process}") for process in processes])
    last = (folder / "errors").read_text().strip().splitlines()[-1:]
    if len(runs) < len(SINKS):
        return f"it ended with {' '.join(last) or 'nothing'} after {len(runs)} of {len(SINKS)} queries"
    for run in runs:
        if not run["is_over"]:
            return f"a query had {run['rows']:,} of {changes():,} rows after {SECONDS} seconds"
        if run["rows"] != changes():
            return f"a query returned {run['rows']:,} rows of {changes():,}"
    server_worked = seconds_of([Path(f"/proc/{server}")]) - before
    return Drained(runs, worked, server_worked, _tokens(folder / "0" / "rows"))


def _tokens(rows: Path) -> list[str]:
    """The resume tokens, in the order of the rows."""
    files = sorted(rows.glob("part-*.parquet"))
    texts = [text for file in files for text in pq.read_table(file, columns=["_id"])["_id"].to_pylist()]
    return [json.loads(text)["_data"] for text in texts]


def main() -> None:
    reason = missing_mongod()
    if reason is not None:
        print(f"spark-stream: skipped: {reason}")
        return
    peer = Path(os.environ.get(PEERS_VARIABLE) or "peers").absolute() / "connector"
    with (
        tempfile.TemporaryDirectory() as name,
        real_replica_set(Path(name, "set"), "--oplogSize", "4096") as real,
        real.client() as client,
    ):
        client[DATABASE].create_collection(COLLECTION)
        start = int(time.time())
        write(client)
        process = real.members[0].process
        assert process is not None
        print(f"spark-stream: {changes():,} changes by PyMongo with its default options, local[{WORKERS}]")
        stream = {
            "connection.uri": real.uri,
            "database": DATABASE,
            "collection": COLLECTION,
            "change.stream.startup.mode": "timestamp",
            "change.stream.startup.mode.timestamp.start.at.operation.time": str(start),
        }
        conf = {"spark.ui.enabled": "false"}

        def run(title: str, python: Path, asked: dict[str, Any], **environment: str) -> Drained | None:
            folder = Path(tempfile.mkdtemp(dir=name))
            found = drained(python, asked, folder, process.pid, environment)
            if isinstance(found, str):
                print(f"  {title}: not measured: {found}")
                return None
            found.show(title)
            return found

        with beats(client):
            ours: dict[str, Drained] = {}
            for kernel in (NATIVE, NUMPY) if compiled_kernel() is not None else (NUMPY,):
                asked = {"format": "tailrace", "options": stream, "conf": conf}
                title = f'format("tailrace"), {kernel} kernel'
                found = run(title, Path(sys.executable), asked, **{VARIABLE: kernel})
                if found is not None:
                    ours[kernel] = found
            if not (peer / "venv").exists():
                print(f"  MongoDB Spark Connector: not measured: no {peer}/venv")
                return
            jars = ",".join(map(str, (peer / "jars").glob("*.jar")))
            options = {f"spark.mongodb.{name}": value for name, value in stream.items()}
            asked = {"format": "mongodb", "options": options, "conf": conf | {"spark.jars": jars}}
            theirs = run("MongoDB Spark Connector", peer / "venv" / "bin" / "python", asked)
        if theirs is None:
            return
        for kernel, found in ours.items():
            if found.tokens != theirs.tokens:
                raise SystemExit("the rows of the two are not the same, or not in the same order")
            print(f"  {kernel} kernel against the Connector; the same rows in the same order")
            for sink in ("parquet", "noop"):
                for seconds, words in (("seconds", sink), ("written", f"{sink}, without starting")):
                    print_goal(words, found.rate(sink, seconds) / theirs.rate(sink, seconds), "5.00")
            first = theirs.runs[0]["seconds"] / found.runs[0]["seconds"]
            print(f"  {'parquet, first time':<34}{first:8.2f}")
