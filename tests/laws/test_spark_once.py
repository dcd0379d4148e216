"""Once, with the history: whatever is killed at whatever moment, no row is missing and none is there twice.

Clients write all the time. The processes of the pipeline and the server are killed (SIGKILL) at moments drawn
from a seed, and come back. In the end the history has to be, byte for byte, what a stream shows that was
never disturbed. One comparison judges all kills before it: a row lost or doubled by any would still show.

Workers, planner and server are killed beside one JVM that stays; a driver takes its JVM along, and starting
one takes seconds, so few of the runs are of that kind. `make test-slow` has more of both.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import OperationFailure, PyMongoError
from pyspark.sql import SparkSession
from tests.laws.law_seeds import BASE_SEED
from tests.server.served import ServedProcess, served
from tests.spark.pipeline_runs import RunningJob, Said, events_of, holds, newest_time, streamed

from tailrace.history.table import HistoryTable
from tailrace.spark.oplogs.deployment import DeploymentSource
from tailrace.spark.pipeline.job import HistoryJob
from tailrace.spark.pipeline.settings import PipelineSettings

SECONDS = 240
"""how long anything may take: a JVM on a busy machine needs a minute to start"""


class Writer(threading.Thread):
    """Inserts, batches, updates and transactions, until it is told to end."""

    def __init__(self, name: str, seed: int, process: ServedProcess, pause: float) -> None:
        super().__init__(name=name)
        self._longest_pause = pause
        self._rng = random.Random(seed)
        self._process = process
        self._ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._process.client() as client:
                number = 0
                while not self._ending.wait(self._rng.uniform(0.0, self._longest_pause)):
                    number += 1
                    with suppress_lost_connection():
                        self._write(client, f"{self.name}-{number}")
        except BaseException as error:
            self.error = error

    def _write(self, client: Any, name: str) -> None:
        once = client.once
        choice = self._rng.randrange(4)
        if choice == 0:
            once.single.insert_one({"_id": name})
        elif choice == 1:
            once.batches.insert_many([{"_id": f"{name}-{n}"} for n in range(self._rng.randrange(2, 40))])
        elif choice == 2:
            once.counters.update_one({"_id": self.name}, {"$inc": {"n": 1}}, upsert=True)
        else:
            with client.start_session() as session, session.start_transaction():
                once.left.insert_one({"_id": name}, session=session)
                once.right.insert_one({"_id": name}, session=session)

    def end(self) -> None:
        self._ending.set()
        self.join(SECONDS)
        assert not self.is_alive()
        assert self.error is None


@contextmanager
def suppress_lost_connection() -> Iterator[None]:
    """What a server that was killed leaves a client with; the write may be there or not."""
    try:
        yield
    except PyMongoError as error:
        if isinstance(error, OperationFailure) and not error.has_error_label("TransientTransactionError"):
            raise


@contextmanager
def writing(process: ServedProcess, seed: int, pause: float = 0.05) -> Iterator[None]:
    writers = [Writer(f"w{number}", seed + number, process, pause) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.end()


def python_processes_below(pid: int) -> list[int]:
    """The Python processes that a process has started, and theirs."""
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
    """Wait until so many more batches are in the table, which a job in this process makes if it is given."""
    deadline = time.monotonic() + SECONDS
    while not HistoryTable.exists(history):
        assert time.monotonic() < deadline, "no history appears"
        time.sleep(0.05)
    table = HistoryTable.open(history)
    wanted = table.version + more
    while table.version < wanted:
        assert job is None or job.is_alive(), f"the job ended: {job.error!r}"
        assert time.monotonic() < deadline, "the history does not go on"
        time.sleep(0.02)
        table.refresh()


def compare(process: ServedProcess, history: Path) -> None:
    with process.client() as client:
        end = newest_time(client)
        assert holds(history, end)
        expected = streamed(client, end)
    assert len(expected) > 100
    assert events_of(history) == expected


def kill_beside_one_jvm(spark: SparkSession, seed: int, rounds: int, folder: Path) -> None:
    """Kill workers, the planner and the server; the driver and its JVM stay."""
    rng = random.Random(seed)
    history = folder / "history"
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    killed = {"python": 0, "server": 0}
    with served(folder, "--log-level", "error") as process, DeploymentSource(process.uri) as source:
        log = Said()
        job = RunningJob(spark, HistoryJob(source, PipelineSettings(history), log))
        job.start()
        try:
            with writing(process, seed):
                for _ in range(rounds):
                    wait_for_commits(history, rng.choice((0, 0, 1, 2)), job)  # 0: while it still recovers
                    time.sleep(rng.uniform(0.0, 0.3))
                    victims = python_processes_below(jvm)
                    if victims and rng.random() < 0.85:
                        killed["python"] += 1
                        with suppress(ProcessLookupError):
                            os.kill(rng.choice(victims), signal.SIGKILL)
                    else:
                        killed["server"] += 1
                        process.kill()
                        process.start()
            compare(process, history)
        finally:
            job.end()
        assert job.error is None, log.reasons
        assert min(killed.values()) > 0
        assert log.messages, "no kill has ever hit the query"


def kill_drivers(seed: int, rounds: int, folder: Path) -> None:
    """Kill the driver, its JVM, or both, and start the pipeline again on what they left."""
    rng = random.Random(seed)
    history = folder / "history"
    with served(folder, "--log-level", "error") as process:
        with writing(process, seed, pause=0.2):
            for _ in range(rounds):
                driver = start_driver(process, history, folder)
                try:
                    wait_for_commits(history, rng.randrange(1, 6))
                    time.sleep(rng.uniform(0.0, 0.1))
                    if rng.random() < 0.5:
                        driver.kill()
                finally:
                    os.killpg(driver.pid, signal.SIGKILL)
                    driver.wait(SECONDS)
        driver = start_driver(process, history, folder)
        try:
            compare(process, history)
            driver.send_signal(signal.SIGTERM)
            assert driver.wait(SECONDS) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait(SECONDS)


def start_driver(process: ServedProcess, history: Path, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tailrace", "pipeline", "--source", process.uri]
    command += ["--history", str(history), "--trigger", "0s", "--master", "local[2,4]"]
    with open(folder / "pipeline.log", "ab") as log:
        return subprocess.Popen(command, stderr=log, start_new_session=True)


def test_workers_and_server_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    kill_beside_one_jvm(spark, BASE_SEED, 48, tmp_path)


def test_a_driver_is_killed(tmp_path: Path) -> None:
    kill_drivers(BASE_SEED, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BASE_SEED + 1, BASE_SEED + 4))
def test_more_is_killed(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    kill_beside_one_jvm(spark, seed, 150, tmp_path)


@pytest.mark.slow
def test_more_drivers_are_killed(tmp_path: Path) -> None:
    kill_drivers(BASE_SEED + 1, 30, tmp_path)
