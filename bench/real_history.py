"""Events per second from the oplog of a real MongoDB to the history, against the floor and against peers.

A driver with its default options writes to a real server, and the pipeline reads the oplog. The floor is what
any program in Python has to do: read the same entries through PyMongo, as raw batches, and write the finished
rows with pyarrow, in as many processes. Debezium is measured in the same run if the folder that
TAILRACE_PEERS names has `debezium/` with DebeziumBench.class and `jars/`. Without a real server nothing is
measured. With ``--full`` there are five times as many changes, so that starting and planning count less.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pymongo import DeleteOne, MongoClient, UpdateOne
from pyspark.sql import SparkSession

from bench.figures import print_goal
from bench.spark_history import FULL_VARIABLE
from bench.spark_history_job import workers_seconds
from tailrace.events.cluster_time import to_timestamp
from tailrace.lake.bulk.kernel import kernel_in_words
from tailrace.lake.table import HistoryTable
from tailrace.lake.writer import write_files
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.command_sessions import start_session
from tailrace.spark.history_job import HistoryJob
from tests.oracle.real_server import missing_mongod, real_replica_set

PEERS_VARIABLE = "TAILRACE_PEERS"
PEER_SECONDS = 400
DOCUMENTS, DOCUMENTS_FULL = 120_000, 600_000
"""Each is inserted; three of four are updated, and one of four deleted."""
BATCH = 1_000
WORKERS = 2
ROUNDS = 2
DATABASE, COLLECTION = "shop", "orders"


def changes() -> int:
    """How many changes there are."""
    return 2 * (DOCUMENTS_FULL if os.environ.get(FULL_VARIABLE) else DOCUMENTS)


def write(client: MongoClient[dict[str, Any]]) -> None:
    """Insert, update and delete documents, retryable as a driver does it by default."""
    orders = client[DATABASE][COLLECTION]
    change = {"$set": {"status": "paid", "total": 7.5}}
    for start in range(0, changes() // 2, BATCH):
        keys = orders.insert_many([_order(number) for number in range(start, start + BATCH)]).inserted_ids
        orders.bulk_write([UpdateOne({"_id": key}, change) for key in keys[: BATCH * 3 // 4]])
        orders.bulk_write([DeleteOne({"_id": key}) for key in keys[: BATCH // 4]])


def _order(number: int) -> dict[str, Any]:
    customer = {"name": f"Customer {number}", "city": "Bonn"}
    return {"status": "new", "total": number / 3, "customer": customer, "comment": "x" * 60}


def _read_and_write(
    uri: str, times: tuple[int, int], paths: Sequence[str], target: str
) -> tuple[float, float]:
    """Read the entries of an interval and write finished rows; return seconds and processor seconds."""
    pa.set_cpu_count(1)
    batches = [batch for path in paths for batch in pq.read_table(path, use_threads=False).to_batches()]
    after, through = map(to_timestamp, times)
    with MongoClient[dict[str, Any]](uri) as client:
        client.admin.command("ping")
        began, worked = time.perf_counter(), time.process_time()
        for _ in client.local["oplog.rs"].find_raw_batches({"ts": {"$gt": after, "$lte": through}}):
            pass
        write_files(target, iter(batches), name="floor")
        return time.perf_counter() - began, time.process_time() - worked


def floor(uri: str, table: HistoryTable, folder: Path) -> tuple[float, float]:
    """Return rows a second of the floor, and processor seconds."""
    files = sorted(table.files, key=lambda file: file.first_time)
    half = len(files) // WORKERS or 1
    parts = [files[:half], files[half:]]
    cuts = [files[0].first_time - 1, parts[0][-1].last_time, files[-1].last_time]
    rows = sum(file.rows for file in files)
    best, least = 0.0, float("inf")
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        for number in range(ROUNDS):
            targets = [folder / f"floor{number}-{part}" for part in range(WORKERS)]
            for target in targets:
                target.mkdir()
            paths = [[table.store.path_of(file.path) for file in part] for part in parts]
            done = list(pool.map(_read_and_write, [uri] * WORKERS, pairwise(cuts), paths, map(str, targets)))
            best = max(best, rows / max(seconds for seconds, _ in done))
            least = min(least, sum(worked for _, worked in done))
    return best, least


def debezium(folder: Path, uri: str, start: float) -> "Peer":
    """Run Debezium's engine on the change stream."""
    program = folder / "debezium"
    if not (program / "DebeziumBench.class").exists():
        return Peer(f"skipped: no {program}/DebeziumBench.class")
    command = ["java", "-cp", "jars/*:.", "DebeziumBench", uri, f"{DATABASE}.{COLLECTION}", str(changes())]
    return _peer([*command, str(int(start * 1000))], program)


@dataclass(frozen=True)
class Peer:
    """What was found out about another program."""

    shown: str
    """its figures, or why there are none"""
    rate: float | None = None


def _peer(command: Sequence[str], folder: Path) -> Peer:
    before = getrusage(RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PEER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Peer(f"skipped: it took more than {PEER_SECONDS} seconds")
    found = re.search(r"rate=(\d+)", done.stdout)
    if found is None:
        return Peer(f"skipped: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    after = getrusage(RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    each = worked / changes() * 1e6
    rate = int(found[1])
    return Peer(f"{rate:12,} events/s, {each:.1f} µs of processor time each, Java's start included", rate)


def build(uri: str, spark: SparkSession, history: Path) -> tuple[HistoryTable, float, float]:
    """Build a new history; return it, the seconds, and the processor seconds of the workers."""
    with DeploymentSource(uri) as source:
        job = HistoryJob(source, PipelineSettings(history, interval=None))
        began, worked = time.perf_counter(), workers_seconds()
        job.run(spark)
        return job.table, time.perf_counter() - began, workers_seconds() - worked


def main() -> None:
    reason = missing_mongod()
    if reason is not None:
        print(f"real-history: skipped: {reason}")
        return
    with (
        tempfile.TemporaryDirectory() as name,
        real_replica_set(Path(name, "set"), "--oplogSize", "2048") as real,
    ):
        with real.client() as client:
            client[DATABASE].create_collection(COLLECTION)
            start = time.time()
            write(client)
        print(f"real-history: {changes():,} changes by PyMongo with its default options, local[{WORKERS}]")
        print(f"  kernel: {kernel_in_words()}")
        spark = start_session(f"local[{WORKERS}]", {})
        runs = [build(real.uri, spark, Path(name, f"history{number}")) for number in range(ROUNDS + 1)]
        spark.stop()
        table, seconds, worked = min(runs[1:], key=lambda run: run[1])
        rows = sum(file.rows for file in table.files)
        if rows < changes():
            raise SystemExit(f"{rows} rows of {changes()} changes")
        floor_rate, floor_worked = floor(real.uri, table, Path(name))
        print(f"  floor                 {floor_rate:12,.0f} events/s: read by PyMongo, written by pyarrow")
        each = worked / rows * 1e6
        rate = rows / seconds
        print(f"  history pipeline      {rate:12,.0f} events/s, {each:.2f} µs of the workers each")
        print_goal("against the floor", rate / floor_rate, "0.50")
        print_goal("in processor time", floor_worked / min(run[2] for run in runs[1:]), "0.50")
        peers = Path(os.environ.get(PEERS_VARIABLE) or "peers").absolute()
        peer = debezium(peers, real.uri, start)
        print(f"  Debezium                {peer.shown}")
        if peer.rate:
            print_goal("against Debezium", rate / peer.rate, "5.00")
