"""Engine, on Spark: its events have the same bytes as those of the local engine.

With files and deployments, one piece and many, batch and streaming, one process and a cluster. A Spark job
takes about a second, so one job runs many cases.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pyspark
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pyspark.sql import DataFrame, SparkSession

from tailrace.bson import documents as bsondocs
from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.log.local_engine import LocalEngine
from tailrace.pipeline.replay import PieceLines, ReplayJob, lines_of
from tailrace.pipeline.streams.stream_spec import StreamSpec
from tailrace.sources.archives.files import FilesSource
from tailrace.spark import change_stream
from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import tailrace
from tests.events.stages.test_event_vectors import CASES, run, scope_of
from tests.laws.law_seeds import BASE_SEED
from tests.spark.frames import events_of, micro_batches, sorted_events_of
from tests.support.choices import any_stream
from tests.support.client_workload import ClientWorkload
from tests.support.history import dump, timestamp_of
from tests.support.seeds import history_of
from tests.support.workload import generate

SEEDS = range(BASE_SEED + 500, BASE_SEED + 540)
EXPANDED = {"showExpandedEvents": True}


@dataclass(frozen=True)
class Case:
    """A stream on archived files, and the events that the local engine makes of it."""

    name: str
    job: ReplayJob
    events: list[bytes]
    invalidated: bool
    failed: bool


def write_archive(folder: Path, logs: Sequence[Sequence[bytes]]) -> dict[str, list[str]]:
    folder.mkdir()
    paths = {}
    for number, log in enumerate(logs):
        path = folder / f"oplog{number}.bson"
        path.write_bytes(dump(log))
        paths["" if len(logs) == 1 else f"shard{number}"] = [str(path)]
    return paths


def write_dump(path: Path, raws: Sequence[bytes]) -> list[str]:
    path.write_bytes(dump(raws))
    return [str(path)]


def job_of(source: FilesSource, spec: StreamSpec) -> ReplayJob:
    return ReplayJob(source, spec, spec.open().variables)


def vector_case(number: int, case: dict[str, Any], folder: Path) -> Case:
    options = case["options"]
    place = folder / f"vector{number}"
    shards = write_archive(place, [[bsondocs.encode(entry) for entry in case["oplog"]]])
    images = [bsondocs.encode(image) for image in case.get("preImages", [])]
    current = case.get("currentDocuments", {})
    dumps = {
        namespace: write_dump(place / f"{number}.bson", [bsondocs.encode(document) for document in found])
        for number, (namespace, found) in enumerate(current.items())
        if found
    }
    source = FilesSource(shards, {None: write_dump(place / "images.bson", images)} if images else None, dumps)
    whole = {"allChangesForCluster": True} if options["watch"]["scope"] == "cluster" else {}
    spec = StreamSpec.of(
        scope_of(options["watch"]),
        {**options["changeStream"], **whole},
        raw_data=options.get("rawData", False),
        parameters=options.get("serverParameters") or {},
    )
    events, end = run(case, 1000)
    return Case(case["name"], job_of(source, spec), events, end == "invalidated", isinstance(end, dict))


def history_case(seed: int, folder: Path) -> Case:
    history = history_of(seed)
    rng = random.Random(seed)
    stream = any_stream(history, rng)
    logs = [history.entries] if rng.random() < 0.5 else history.split(3, seed)
    place = folder / f"history{seed}"
    shards = write_archive(place, logs)
    images = history.pre_image_documents()
    dumps = {
        namespace: write_dump(place / f"{number}.bson", list(found.values()))
        for number, (namespace, found) in enumerate(history.final_documents.items())
    }
    source = FilesSource(shards, {None: write_dump(place / "images.bson", images)} if images else None, dumps)
    spec = StreamSpec.of(stream.scope, stream.spec, stream.pipeline, raw_data=stream.raw_data)
    lookups = {shard: source.lookups(shard, 0, source.promised()) for shard in source.shards()}
    engine = LocalEngine(spec.open(), lookups)
    events: list[bytes] = []
    failed = False
    try:
        for shard, log in zip(shards, logs, strict=True):
            engine.push(shard, log)
            engine.finish(shard)
        while more := engine.drain():
            events += more
    except CommandError:
        failed = True
    return Case(f"history_of({seed})", job_of(source, spec), events, engine.done, failed)


def check(case: Case, pieces: Sequence[PieceLines]) -> None:
    expected = [dumps_canonical(event) for event in case.events]
    lines: list[str] = []
    for piece in pieces:
        lines += piece.lines.decode().splitlines()
        if piece.has_failed:
            # The caller then runs the local engine for the rest, which raises the error.
            assert case.failed, case.name
            assert lines == expected[: len(lines)], case.name
            return
        if piece.is_over:
            break
    assert lines == expected, case.name
    assert any(piece.is_over for piece in pieces) == case.invalidated, case.name
    assert not case.failed, case.name


def check_all(spark: SparkSession, cases: Sequence[Case], piece_bytes: int) -> None:
    """Run one job for all cases and all their pieces, and check each case."""
    work = [
        (number, case.job, piece)
        for number, case in enumerate(cases)
        for piece in case.job.intervals(piece_bytes) or []
    ]
    random.Random(piece_bytes).shuffle(work)
    tasks = spark.sparkContext.parallelize(work, 4)
    done = tasks.map(lambda item: (item[0], lines_of(item[1], item[2]))).collect()
    for number, case in enumerate(cases):
        pieces = sorted((p for n, p in done if n == number), key=lambda piece: piece.interval.after)
        check(case, pieces)


def test_vectors_and_histories_in_one_and_in_many_pieces(spark: SparkSession, tmp_path: Path) -> None:
    cases = [vector_case(number, case, tmp_path) for number, case in enumerate(CASES)]
    cases += [history_case(seed, tmp_path) for seed in SEEDS]
    assert sum(len(case.events) for case in cases) > 500
    check_all(spark, cases, 1 << 40)
    check_all(spark, cases, 2_000)


def local_events(entries: Sequence[bytes]) -> list[bytes]:
    """Return the events that the local engine makes of one oplog."""
    engine = LocalEngine(Plan.open(Scope.cluster(), {"allChangesForCluster": True, **EXPANDED}))
    engine.push("", list(entries))
    return engine.drain()


@pytest.mark.slow
def test_batch_and_streaming_from_files(spark: SparkSession, tmp_path: Path) -> None:
    history = generate(BASE_SEED + 7, operations=300)
    logs = history.split(3, 1)
    shards = {name: paths[0] for name, paths in write_archive(tmp_path / "archive", logs).items()}
    engine_spec = StreamSpec.of(Scope.cluster(), {"allChangesForCluster": True, **EXPANDED}, on_router=True)
    job = job_of(FilesSource({name: [path] for name, path in shards.items()}), engine_spec)
    (whole,) = job.intervals(1 << 40) or []
    expected = lines_of(job, whole).lines.decode().splitlines()
    assert len(expected) > 300

    def rows(**more: Any) -> DataFrame:
        return change_stream(spark, shards, None, EXPANDED, output="event", documentsAs="bson", **more)

    for partitions in (1, 9):
        assert [dumps_canonical(event) for event in events_of(rows(partitions=partitions))] == expected
    for size in (100, 100_000):
        frame = rows(streaming=True, maxEntriesPerTrigger=size, startingOffsets="earliest")
        batches = micro_batches(frame, tmp_path / f"checkpoint{size}", sorted_events_of)
        assert [dumps_canonical(event) for batch in batches for event in batch] == expected
        assert (len(batches) > 3) == (size == 100)


@pytest.mark.slow
def test_batch_and_streaming_from_a_deployment(spark: SparkSession, tmp_path: Path) -> None:
    with ReplicaSet() as replica_set:
        client: MongoClient[Any] = replica_set.client()
        ClientWorkload(client, BASE_SEED, "law").run(120)
        oplog = client.local.get_collection("oplog.rs", CodecOptions(document_class=RawBSONDocument))
        entries = [document.raw for document in oplog.find(sort=[("$natural", 1)])]
        expected = local_events(entries)
        assert len(expected) > 100
        start = {"startAtOperationTime": to_timestamp(timestamp_of(entries[0]))}

        def rows(**more: Any) -> DataFrame:
            options = {**EXPANDED, **start}
            return change_stream(
                spark, replica_set.uri, None, options, output="event", documentsAs="bson", **more
            )

        for partitions in (1, 5):
            assert events_of(rows(partitions=partitions))[: len(expected)] == expected
        frame = rows(streaming=True, maxEntriesPerTrigger=50)
        batches = micro_batches(frame, tmp_path / "checkpoint", sorted_events_of)
        assert [event for batch in batches for event in batch][: len(expected)] == expected
        assert len(batches) > 1


@contextmanager
def spark_process(folder: Path, main: str, *arguments: str) -> Iterator["Queue[str]"]:
    """Run a daemon of a standalone cluster; yields the lines of its log."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments]
    lines: Queue[str] = Queue()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, text=True, cwd=folder
    ) as process:
        assert process.stderr is not None
        reader = Thread(target=_put_all, args=(process.stderr, lines), daemon=True)
        reader.start()
        try:
            yield lines
        finally:
            process.terminate()
            process.wait(30)
            reader.join(30)


def _put_all(text: Iterable[str], lines: "Queue[str]") -> None:
    for line in text:
        lines.put(line)


def wait_for(lines: "Queue[str]", pattern: str) -> str:
    while True:
        found = re.search(pattern, lines.get(timeout=60))
        if found is not None:
            return found[1]


@pytest.mark.slow
def test_a_standalone_cluster(tmp_path: Path, java: None) -> None:
    """The command line on a master and two workers: six JVMs."""
    history = generate(BASE_SEED + 8, operations=200)
    shards = write_archive(tmp_path / "archive", history.split(2, 3))
    arguments = [text for name, (path,) in shards.items() for text in ("--shard", f"{name}={path}")]
    arguments += ["--options", '{"showExpandedEvents": true}']
    network = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with spark_process(tmp_path, "master.Master", *network) as master_log:
        master = wait_for(master_log, r"Starting Spark master at (spark://\S+)")
        worker = ("--cores", "1", "--memory", "2g", master)
        with (
            spark_process(tmp_path, "worker.Worker", *network, *worker) as first,
            spark_process(tmp_path, "worker.Worker", *network, *worker) as second,
        ):
            for log in (first, second):
                wait_for(log, r"(Successfully registered with master)")
            command = [sys.executable, "-m", "tailrace", "replay", *arguments, "--master", master]
            environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
            found = subprocess.run(
                [*command, "--engine", "spark"], capture_output=True, check=False, env=environment
            )
    expected = tailrace("replay", *arguments, "--engine", "local")
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout == expected.output
    assert len(expected.lines) > 200
