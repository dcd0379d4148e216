"""Pipelines whose processes are killed (SIGKILL), with or without their server, while clients write."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.source import OplogSource
from tailrace.spark import change_stream
from tailrace.spark.history_job import HistoryJob
from tests.laws.busy_writers import writing
from tests.mongod.server.served import ServedProcess
from tests.spark.pipeline_runs import SECONDS, RunningJob, Warnings, warnings_of_pipelines

Driver = subprocess.Popen[bytes]


@contextmanager
def job_under_kills(
    spark: SparkSession,
    source: OplogSource,
    process: ServedProcess,
    history: Path,
    *,
    seed: int,
    rounds: int,
    of_workers: float,
) -> Iterator[Warnings]:
    """Run a job, kill its workers, planner and server, then run the block; yields the job's warnings.

    The driver and its JVM stay. ``of_workers`` is the share of the kills that hit workers, not the server.
    There are ``rounds`` kills, and more until one of them has interrupted the query.
    """
    rng = random.Random(seed)
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    of_server = max(1, round(rounds * (1 - of_workers)))
    planned = [False] * of_server + [True] * (rounds - of_server)
    rng.shuffle(planned)
    killed = {"python": 0, "server": 0}
    job = RunningJob(spark, HistoryJob(source, PipelineSettings(history)))
    with warnings_of_pipelines() as log:
        job.start()
        try:
            with writing(process, seed):
                while planned or not log.messages:
                    wait_for_commits(history, rng.choice((0, 0, 1, 2)), job)  # 0: during recovery
                    time.sleep(rng.uniform(0.0, 0.3))
                    victims = python_processes_below(jvm)
                    is_of_worker = planned.pop() if planned else True
                    if victims and is_of_worker:
                        killed["python"] += 1
                        with suppress(ProcessLookupError):
                            os.kill(rng.choice(victims), signal.SIGKILL)
                    else:
                        killed["server"] += 1
                        process.kill()
                        process.start()
            yield log
        finally:
            job.end()
            discard_dead_workers(spark)
    assert job.error is None, log.reasons
    assert min(killed.values()) > 0, (seed, killed)


def discard_dead_workers(spark: SparkSession) -> None:
    """Run small jobs until none fails: Spark keeps idle workers for later jobs, killed ones, too.

    The processes that plan a data source are others than those of tasks.
    """
    successes = 0
    for _ in range(20):
        try:
            spark.sparkContext.parallelize(range(4), 4).map(abs).count()
            change_stream(spark, os.devnull).count()
            successes += 1
        except (Py4JJavaError, PySparkException):
            successes = 0
        if successes == 3:
            return


def kill_drivers(
    process: ServedProcess, folder: Path, *, seed: int, rounds: int, first: Callable[[Driver], None]
) -> None:
    """Start drivers one after another on the same history, and kill each with all of its processes.

    In half of the rounds ``first`` is called before the kill.
    """
    rng = random.Random(seed)
    with writing(process, seed, pause=0.2):
        for _ in range(rounds):
            with driving(process, folder) as driver:
                wait_for_commits(folder / "history", rng.randrange(1, 6))
                time.sleep(rng.uniform(0.0, 0.1))
                if rng.random() < 0.5:
                    first(driver)


@contextmanager
def driving(process: ServedProcess, folder: Path) -> Iterator[Driver]:
    """Run `tailrace pipeline` into the history of a folder; kill it and its JVM after the block."""
    command = [sys.executable, "-m", "tailrace", "pipeline", "--source", process.uri]
    command += ["--history", str(folder / "history"), "--trigger", "0s", "--master", "local[2,4]"]
    with open(folder / "pipeline.log", "ab") as log:
        driver = subprocess.Popen(command, stderr=log, start_new_session=True)
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(SECONDS)


def python_processes_below(pid: int) -> list[int]:
    """Return the Python processes among the descendants of a process."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            waiting.append(child)
            with suppress(OSError):
                if b"python" in (Path("/proc") / str(child) / "cmdline").read_bytes():
                    found.append(child)
    return found


def wait_for_commits(history: Path, more: int, job: RunningJob | None = None) -> None:
    """Wait until the table has ``more`` further batches; fail if ``job``, which builds them, has ended."""
    deadline = time.monotonic() + SECONDS
    while not HistoryTable.exists(history):
        assert time.monotonic() < deadline, "no history was created"
        time.sleep(0.05)
    table = HistoryTable.open(history)
    wanted = table.version + more
    while table.version < wanted:
        assert job is None or job.is_alive(), f"the job ended: {job.error!r}"
        assert time.monotonic() < deadline, "no batch was added to the history"
        time.sleep(0.02)
        table.refresh()
