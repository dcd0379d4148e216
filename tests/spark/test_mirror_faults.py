"""Law **Mirror** with faults beside the driver: workers of Spark are killed, and so is the source."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from pymongo.errors import PyMongoError
from pyspark.sql import SparkSession

from bench.spark_history_job import workers
from tailrace.lake.columns.kinds import TableKind
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.mirroring import run_mirror
from tests.laws.law_seeds import BASE_SEED
from tests.laws.mirror_runs import PREFIX, check_equal, run_once, settings_of
from tests.oracle.real_server import RealReplicaSet, missing_mongod, real_replica_set
from tests.support.client_workload import ClientWorkload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROUNDS = 8


def kill_one_worker(rng: random.Random) -> bool:
    """Kill a task, or the process that starts them; False if there is none now."""
    found = [int(folder.name) for folder in workers()]
    if not found:
        return False
    try:
        os.kill(rng.choice(found), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def restart(source: RealReplicaSet) -> None:
    """Kill the source, and start it on its files."""
    (member,) = source.members
    member.kill()
    member.start()
    deadline = time.monotonic() + 60
    with source.client() as client:
        while True:
            try:
                client.admin.command("appendOplogNote", data={})
            except PyMongoError:
                assert time.monotonic() < deadline, "the source has no primary"
            else:
                return


@pytest.mark.parametrize("seed", range(BASE_SEED, BASE_SEED + 3))
def test_tables_equal_the_collections_after_workers_and_the_source_were_killed(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    print(f"seed {seed}")
    rng = random.Random(seed)
    settings = settings_of(tmp_path / "lake", TableKind.CURRENT, interval=0.0)
    ending = threading.Event()
    errors: list[BaseException] = []

    def follow(uri: str) -> None:
        try:
            with DeploymentSource(uri) as source:
                run_mirror(spark, source, settings, ending)
        except BaseException as error:
            errors.append(error)

    with real_replica_set(tmp_path / "set") as real, real.client() as client:
        workload = ClientWorkload(client, seed, PREFIX)
        workload.run(400)
        mirror = threading.Thread(target=follow, args=(real.uri,))
        mirror.start()
        killed = 0
        try:
            for number in range(ROUNDS):
                workload.run(60)
                time.sleep(rng.uniform(0.0, 2.0))  # a seeded moment of the mirror
                killed += kill_one_worker(rng)
                if number % 3 == 2:
                    restart(real)
        finally:
            ending.set()
            mirror.join()
        assert not errors, repr(errors)
        assert killed
        assert check_equal(client, run_once(real.uri, tmp_path / "lake")) > 0
