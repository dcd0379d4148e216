"""The pipeline and `tailrace watch` on a real replica set whose members fail, leave and join."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bson import Timestamp
from pyspark.sql import SparkSession

from tailrace.sources.deployments.deployment import DeploymentSource
from tests.laws.busy_writers import DATABASE, writing
from tests.oracle.changes import change_of, changes_in, events_of
from tests.oracle.faults import MEMBERS, ROLLED_BACK, SETTINGS, Faults, majority_end, wait_for_members
from tests.oracle.real_server import RealReplicaSet, missing_mongod
from tests.oracle.seeds import SEEDS
from tests.spark.pipeline_runs import SECONDS, holds, running, wait_until

_SOON = "&connectTimeoutMS=2000&heartbeatFrequencyMS=500&socketTimeoutMS=10000"
"""A frozen member is noticed in seconds."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[RealReplicaSet]:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    replica_set = RealReplicaSet(tmp_path, members=MEMBERS)
    try:
        replica_set.start(SETTINGS)
        wait_for_members(replica_set)
        yield replica_set
    finally:
        replica_set.stop()


@contextmanager
def watched(uri: str, start: Timestamp, out: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `tailrace watch` on the database, from a time on, into a file."""
    time = json.dumps({"$timestamp": {"t": start.time, "i": start.inc}})
    command = [sys.executable, "-m", "tailrace", "watch", uri, DATABASE, "--start-at-operation-time", time]
    with out.open("wb") as lines:
        process = subprocess.Popen(command, stdout=lines, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def tokens_in(lines: Path) -> list[str]:
    """The resume tokens of whole lines."""
    whole = lines.read_bytes().rpartition(b"\n")[0].splitlines()
    return [json.loads(line)["_id"]["_data"] for line in whole]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_majority_committed_change_once(
    three: RealReplicaSet, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    history, lines = tmp_path / "history", tmp_path / "lines"
    faults = Faults(three, tmp_path, seed)
    start = majority_end(three)
    with (
        DeploymentSource(three.uri + _SOON) as source,
        running(spark, source, history),
        watched(three.uri + _SOON, start, lines) as watcher,
    ):
        assert holds(history, start)  # the oplogs of members begin at different times
        with writing(three, seed):
            for fault in faults.all_in_random_order():
                fault()
                wait_for_members(three)  # a majority that can elect a primary
        end = majority_end(three)
        with three.client() as client:
            expected = events_of(client, DATABASE, start, end)
            gone = client[DATABASE][ROLLED_BACK].count_documents({})
        assert holds(history, end)
        wait_until(lambda: watcher.poll() is not None or len(tokens_in(lines)) >= len(expected))
        assert watcher.poll() is None, watcher.communicate(timeout=SECONDS)[1].decode()
    assert faults.rolled_back
    assert not gone
    assert expected
    assert changes_in(history, DATABASE) == [change_of(event) for event in expected]
    assert tokens_in(lines) == [event["_id"]["_data"] for event in expected]
