"""A mirror of a real MongoDB under a steady load: how fast it copies, and how far it is from the source then.

Three collections are copied while they are written to, then read by the MongoDB Spark Connector into Parquet,
if the folder that TAILRACE_PEERS names has it (`connector/`, as for `real-history`). Then changes are made at
a steady rate, and the mirror follows. At the end the tables are compared with the collections, document by
document. With ``--full`` there are a million documents.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pymongo import DeleteOne, InsertOne, MongoClient, UpdateOne
from pymongo.errors import PyMongoError
from pyspark.sql import SparkSession

from bench.figures import percentile, print_goal
from bench.real_history import PEERS_VARIABLE
from bench.spark_history import FULL_VARIABLE
from bench.spark_history_job import descendants, seconds_of, workers_seconds
from tailrace.bson.documents import encode
from tailrace.pipeline.mirror.progress import MirrorProgress
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.command_sessions import start_session
from tailrace.spark.mirroring import run_mirror
from tests.oracle.real_server import missing_mongod, real_replica_set

DOCUMENTS, DOCUMENTS_FULL = 150_000, 1_000_000
DATABASE = "shop"
SHARES = {"orders": 0.6, "customers": 0.3, "products": 0.1}
WHILE_COPIED = 500
"""Changes in a second."""
WHILE_FOLLOWED = 5_000
FOLLOWED_SECONDS = 40
INTERVAL = 4.0
"""Seconds between batches: `--trigger`"""
BATCH = 5_000
WORKERS = 2
_TICKS = 10
_CONNECTOR = """
import glob, os, sys, tempfile, time
from pyspark.sql import SparkSession
jars, uri, database, *collections = sys.argv[1:]
spark = (SparkSession.builder.master("local[2]").config("spark.jars", ",".join(glob.glob(jars + "/*.jar")))
         .config("spark.ui.enabled", "false").getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
java = spark._jvm.java.lang.ProcessHandle.current().pid()
def cpu():
    times = open(f"/proc/{java}/stat").read().rpartition(") ")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
began, spent, target = time.perf_counter(), cpu(), tempfile.mkdtemp()
for name in collections:
    read = (spark.read.format("mongodb").option("spark.mongodb.connection.uri", uri)
            .option("spark.mongodb.database", database).option("spark.mongodb.collection", name).load())
    read.write.parquet(f"{target}/{name}")
seconds = time.perf_counter() - began
spent = cpu() - spent
rows = sum(spark.read.parquet(f"{target}/{name}").count() for name in collections)
print(f"rate={rows / seconds:.0f} {spent / rows * 1e6:.2f}")
"""


def document(number: int) -> dict[str, Any]:
    customer = {"name": f"Customer {number}", "city": "Bonn"}
    return {"_id": number, "status": "new", "total": number / 3, "customer": customer, "comment": "x" * 60}


def sizes() -> dict[str, int]:
    documents = DOCUMENTS_FULL if os.environ.get(FULL_VARIABLE) else DOCUMENTS
    return {name: int(documents * share) for name, share in SHARES.items()}


def fill(client: "MongoClient[dict[str, Any]]") -> None:
    for name, size in sizes().items():
        for start in range(0, size, BATCH):
            client[DATABASE][name].insert_many([document(n) for n in range(start, min(start + BATCH, size))])


def write_steadily(uri: str, rate: int) -> None:
    """Change documents until it is killed; prints how many changes were made, every tick.

    Of five changes three update documents all over the collections, one inserts a document, and one deletes
    a document that was inserted. The writes are not waited for: a steady load does not depend on the disk.
    """
    with MongoClient[dict[str, Any]](uri, w=1) as client:
        due, made = time.monotonic(), 0
        inserted = {name: deque[int]() for name in SHARES}
        number = time.time_ns() // 1_000_000  # not as earlier writers, whose updates would change nothing
        newest = dict.fromkeys(SHARES, number)
        while True:
            for name, size in sizes().items():
                changes: list[Any] = []
                for place in range(max(1, int(rate / _TICKS * SHARES[name]))):
                    if place % 5 == 3:
                        inserted[name].append(newest[name])
                        changes.append(InsertOne(document(newest[name])))
                        newest[name] += 1
                    elif place % 5 == 4 and len(inserted[name]) > rate:
                        changes.append(DeleteOne({"_id": inserted[name].popleft()}))
                    else:
                        number += 7919
                        change = {"$set": {"total": number, "status": "paid"}}
                        changes.append(UpdateOne({"_id": number % size}, change))
                client[DATABASE][name].bulk_write(changes, ordered=False)
                made += len(changes)
            due += 1 / _TICKS
            print(made, flush=True)
            time.sleep(max(0.0, due - time.monotonic()))


@dataclass(slots=True)
class Writer:
    """A process that makes changes."""

    process: "subprocess.Popen[str]"
    made: list[int] = field(default_factory=list)
    """How many changes there were, after each tick; all of them once the process has ended"""

    @property
    def seconds(self) -> float:
        """Its processor time."""
        return seconds_of([Path(f"/proc/{self.process.pid}")])


@contextmanager
def writing(uri: str, rate: int) -> Iterator[Writer]:
    """Changes at a steady rate during the block."""
    command = [sys.executable, "-m", "bench.mirror", uri, str(rate)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    writer = Writer(process)
    assert process.stdout is not None
    lines = process.stdout
    reader = threading.Thread(target=lambda: writer.made.extend(int(line) for line in lines), daemon=True)
    reader.start()
    try:
        yield writer
    finally:
        process.kill()
        process.wait()
        reader.join()


def run(spark: SparkSession, uri: str, root: Path, interval: float | None = None) -> list[tuple[float, int]]:
    """Run a mirror; return when it was at which cluster time."""
    seen: list[tuple[float, int]] = []
    ending = threading.Event()

    def note(progress: MirrorProgress) -> None:
        if progress.through and (not seen or seen[-1][1] != progress.through):
            seen.append((time.time(), progress.through >> 32))

    settings = MirrorSettings(str(root), mirrored_namespaces([DATABASE], []), interval=interval)
    if interval is not None:
        threading.Timer(FOLLOWED_SECONDS, ending.set).start()
    with DeploymentSource(uri) as source:
        run_mirror(spark, source, settings, ending, note)
    return seen


def connector(uri: str) -> tuple[float, float] | None:
    """Rows a second of the Connector, from the collections to Parquet, and its processor time for a row.

    In microseconds; None if it is not there.
    """
    folder = Path(os.environ.get(PEERS_VARIABLE) or "peers").absolute() / "connector"
    if not (folder / "venv").exists():
        print(f"  MongoDB Spark Connector: skipped: no {folder.name}/venv")
        return None
    command = ["venv/bin/python", "-c", _CONNECTOR, "jars", uri, DATABASE, *SHARES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    _, found, figures = done.stdout.rpartition("rate=")
    if not found:
        print(f"  MongoDB Spark Connector: skipped: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
        return None
    rate, spent = map(float, figures.split())
    return rate, spent


def processor_seconds() -> float:
    """The processor time of this process, of Java and of Spark's workers."""
    children = [Path(f"/proc/{each}") for each in descendants(os.getpid())]
    java = [each for each in children if (each / "comm").read_text().strip() == "java"]
    return time.process_time() + workers_seconds() + seconds_of(java)


def differences(client: "MongoClient[dict[str, Any]]", root: Path) -> int:
    """How many documents of the collections and the tables differ."""
    found = 0
    for name in SHARES:
        table = DeltaTable(str(root / DATABASE / name)).to_pyarrow_table(columns=["_bson"])
        mirrored = {hash(value) for value in table["_bson"].to_pylist()}
        stored = {hash(encode(one)) for one in client[DATABASE][name].find()}
        found += len(stored ^ mirrored)
    return found


def main() -> None:
    reason = missing_mongod()
    if reason is not None:
        print(f"mirror: skipped: {reason}")
        return
    total = sum(sizes().values())
    with (
        tempfile.TemporaryDirectory() as name,
        real_replica_set(Path(name, "set"), "--oplogSize", "2048") as real,
        real.client() as client,
    ):
        fill(client)
        root = Path(name, "tables")
        print(f"mirror: {total:,} documents in {len(SHARES)} collections, local[{WORKERS}]")
        spark = start_session(f"local[{WORKERS}]", {})
        with writing(real.uri, WHILE_COPIED):
            others = processor_seconds()
            began = time.perf_counter()
            run(spark, real.uri, root)
            rate = total / (time.perf_counter() - began)
            spent = (processor_seconds() - others) / total * 1e6
            peer = connector(real.uri)
        print(f"  copy                  {rate:12,.0f} documents/s, with {WHILE_COPIED} changes/s beside it")
        print(f"    processor time      {spent:12.2f} us a document, without the server")
        if peer is not None:
            print(f"  Spark Connector       {peer[0]:12,.0f} documents/s, batch read into Parquet")
            print(f"    processor time      {peer[1]:12.2f} us a document")
            print_goal("against the Connector", rate / peer[0], "1.50")
            print_goal("against it in processor time", peer[1] / spent, "1.50")
        server = [Path(f"/proc/{member.process.pid}") for member in real.members if member.process]
        with writing(real.uri, WHILE_FOLLOWED) as writer:
            began = time.perf_counter()
            before = processor_seconds(), seconds_of(server), writer.seconds
            seen = run(spark, real.uri, root, INTERVAL)
            after = processor_seconds(), seconds_of(server), writer.seconds
            seconds = time.perf_counter() - began
        lags = [max(0.0, at - through) for at, through in seen]
        made = writer.made[-1]
        print(f"  followed {len(seen)} batches at {made / seconds:,.0f} changes/s")
        for name, start, end in zip(("mirror", "server", "writer"), before, after, strict=True):
            spent = end - start
            each = f"{spent / made * 1e6:12.0f} us of processor time a change"
            print(f"    {name:19} {each}, {spent / seconds:.2f} cores")
        # What readers saw just before each batch was the state after the one before.
        ages = [after[0] - before[1] for before, after in pairwise(seen[1:])]
        print_goal("largest lag after a batch", max(lags[1:], default=float("nan")), "10.00", " s")
        print_goal("median lag after a batch", percentile(lags, 50), "10.00", " s")
        print_goal("oldest state before a batch", max(ages, default=float("nan")), "10.00", " s")
        # A mirror reads what a majority has. That the last changes are there is known by one after them.
        client.admin.command("appendOplogNote", data={}, writeConcern={"w": "majority"})
        run(spark, real.uri, root)
        spark.stop()
        try:
            print(f"  documents that differ: {differences(client, root)}")
        except PyMongoError as error:
            raise SystemExit(f"the comparison failed: {error}") from None


if __name__ == "__main__":
    write_steadily(sys.argv[1], int(sys.argv[2]))
