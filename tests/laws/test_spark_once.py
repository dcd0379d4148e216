"""Once, with the history: after kills at random moments, no row is missing and none is stored twice.

Clients write all the time. The processes of the pipeline and the server are killed (SIGKILL) at moments drawn
from a seed, and restarted. At the end the history has to contain the same bytes as an undisturbed stream. One
comparison covers all kills before it, because a row that any of them lost or doubled would still differ.

Workers, planner and server are killed while the JVM keeps running. Killing a driver ends its JVM, and
starting one takes seconds, so only `make test-slow` does that. It runs more of the other kills, too.
"""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.laws.killed_pipelines import driving, kill_drivers, pipeline_under_kills
from tests.laws.law_seeds import BASE_SEED
from tests.mongod.server.served import ServedProcess, served
from tests.spark.pipeline_runs import SECONDS, events_of, holds, newest_time, streamed


def compare(process: ServedProcess, history: Path) -> None:
    with process.client() as client:
        end = newest_time(client)
        assert holds(history, end)
        expected = streamed(client, end)
    assert len(expected) > 100
    assert events_of(history) == expected


def kill_workers_and_server(seed: int, rounds: int, folder: Path) -> None:
    with (
        served(folder, "--log-level", "error") as process,
        pipeline_under_kills(process, process.uri, folder, seed=seed, rounds=rounds, of_workers=0.85),
    ):
        compare(process, folder / "history")


def kill_drivers_or_jvms(seed: int, rounds: int, folder: Path) -> None:
    """Kill the driver, its JVM, or both, and restart the pipeline on the same history."""
    with served(folder, "--log-level", "error") as process:
        kill_drivers(process, folder, seed=seed, rounds=rounds, first=subprocess.Popen.kill)
        with driving(process.uri, folder) as driver:
            compare(process, folder / "history")
            driver.send_signal(signal.SIGTERM)
            assert driver.wait(SECONDS) == 0


@pytest.mark.slow
def test_workers_and_server_are_killed(java: None, tmp_path: Path) -> None:
    kill_workers_and_server(BASE_SEED, 10, tmp_path)


@pytest.mark.slow
def test_a_driver_is_killed(tmp_path: Path) -> None:
    kill_drivers_or_jvms(BASE_SEED, 1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(BASE_SEED + 1, BASE_SEED + 4))
def test_workers_and_server_are_killed_often(java: None, seed: int, tmp_path: Path) -> None:
    kill_workers_and_server(seed, 150, tmp_path)


@pytest.mark.slow
def test_drivers_are_killed_often(tmp_path: Path) -> None:
    kill_drivers_or_jvms(BASE_SEED + 1, 30, tmp_path)
