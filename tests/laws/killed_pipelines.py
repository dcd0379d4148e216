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
from typing import Final

from tailrace.lake.table import HistoryTable
from tests.laws.busy_writers import writing
from tests.mongod.server.served import ServedProcess
from tests.spark.pipeline_runs import SECONDS

Driver = subprocess.Popen[bytes]
_LOG: Final = "pipeline.log"


@contextmanager
def pipeline_under_kills(
    process: ServedProcess,
    uri: str,
    folder: Path,
    *,
    seed: int,
    rounds: int,
    of_workers: float,
) -> Iterator[None]:
    """Run a pipeline, kill its workers, planner and server, then run the block.

    The driver and its JVM stay, and end orderly after the block. They are processes of their own: Spark keeps
    what is left of killed workers for later queries, which fail because of it.
    ``of_workers`` is the share of the kills that hit workers, not the server.
    There are ``rounds`` kills, and more until one of them has interrupted the query.
    """
    rng = random.Random(seed)
    of_server = max(1, round(rounds * (1 - of_workers)))
    planned = [False] * of_server + [True] * (rounds - of_server)
    rng.shuffle(planned)
    killed = {"python": 0, "server": 0}
    with driving(uri, folder) as driver:
        with writing(process, seed):
            while planned or not was_interrupted(folder):
                wait_for_commits(folder / "history", rng.choice((0, 0, 1, 2)), driver)  # 0: during recovery
                time.sleep(rng.uniform(0.0, 0.3))
                victims = workers_of(driver)
                is_of_worker = planned.pop() if planned else True
                if victims and is_of_worker:
                    killed["python"] += 1
                    with suppress(ProcessLookupError):
                        os.kill(rng.choice(victims), signal.SIGKILL)
                else:
                    killed["server"] += 1
                    process.kill()
                    process.start()
        yield
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(SECONDS) == 0, log_of(folder)
    assert min(killed.values()) > 0, (seed, killed)


def kill_drivers(
    process: ServedProcess, folder: Path, *, seed: int, rounds: int, first: Callable[[Driver], None]
) -> None:
    """Start drivers one after another on the same history, and kill each with all of its processes.

    In half of the rounds ``first`` is called before the kill.
    """
    rng = random.Random(seed)
    with writing(process, seed, pause=0.2):
        for _ in range(rounds):
            with driving(process.uri, folder) as driver:
                wait_for_commits(folder / "history", rng.randrange(1, 6), driver)
                time.sleep(rng.uniform(0.0, 0.1))
                if rng.random() < 0.5:
                    first(driver)


@contextmanager
def driving(uri: str, folder: Path) -> Iterator[Driver]:
    """Run `tailrace pipeline` into the history of a folder; kill it and its JVM after the block."""
    command = [sys.executable, "-m", "tailrace", "pipeline", "--source", uri]
    command += ["--history", str(folder / "history"), "--trigger", "0s", "--master", "local[2,4]"]
    with open(folder / _LOG, "ab") as log:
        driver = subprocess.Popen(command, stderr=log, start_new_session=True)
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(SECONDS)


def log_of(folder: Path) -> str:
    return (folder / _LOG).read_text()


def was_interrupted(folder: Path) -> bool:
    """Whether the pipeline has started its query again."""
    return "Trying again" in log_of(folder)


def workers_of(driver: Driver) -> list[int]:
    """Return the Python processes that Spark started for a driver: workers, planners and their parents."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], list(children.get(driver.pid, []))  # the JVM
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return [pid for pid in found if _is_python(pid)]


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return b"python" in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    return False


def wait_for_commits(history: Path, more: int, driver: Driver) -> None:
    """Wait until the table has ``more`` further batches; fail if the driver, which builds them, has ended."""
    deadline = time.monotonic() + SECONDS
    while not HistoryTable.exists(history):
        assert driver.poll() is None, log_of(history.parent)
        assert time.monotonic() < deadline, "no history was created"
        time.sleep(0.05)
    table = HistoryTable.open(history)
    wanted = table.version + more
    while table.version < wanted:
        assert driver.poll() is None, log_of(history.parent)
        assert time.monotonic() < deadline, "no batch was added to the history"
        time.sleep(0.02)
        table.refresh()
