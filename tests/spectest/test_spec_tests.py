"""The drivers' spec tests, with both drivers; the files are not part of this project.

`TAILRACE_SPEC_TESTS` names their folder; by default it is next to the project.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import pytest

from tailrace.spectest.deployment import Deployment, parse_version
from tailrace.spectest.drivers import DRIVERS
from tailrace.spectest.outcome import Outcome, Status
from tailrace.spectest.suite import SpecTest, find_tests
from tailrace.testing.in_thread import Options
from tailrace.testing.older_servers import older_servers_accepted
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster

VARIABLE = "TAILRACE_SPEC_TESTS"
FOLDER = Path(
    os.environ.get(VARIABLE) or Path(__file__).parents[3] / "shared" / "spec-tests" / "change-streams"
)
TESTS = find_tests([FOLDER]) if FOLDER.is_dir() else []

OLDER = ["4.0.28", "4.2.24", "6.0.20"]
"""Versions that meet requirements of tests that the current version does not meet."""
pytestmark = pytest.mark.skipif(not TESTS, reason=f"no spec tests in {FOLDER}; {VARIABLE} names their folder")


def name_of(test: SpecTest) -> str:
    return f"{test.file.parent.name}-{test.file.stem}-{test.name}"


@pytest.fixture(scope="module")
def replica_set(tailrace_server: ReplicaSet) -> Deployment:
    return Deployment.at(tailrace_server.uri)


@pytest.fixture(scope="module")
def sharded() -> Iterator[Deployment]:
    with ShardedCluster(shards=2, routers=2) as cluster:
        yield Deployment.at(cluster.uri)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("test", TESTS, ids=name_of)
@pytest.mark.parametrize("topology", ["replica_set", "sharded"])
def test_spec(test: SpecTest, driver: str, topology: str, request: pytest.FixtureRequest) -> None:
    deployment: Deployment = request.getfixturevalue(topology)
    outcome = test.run(deployment, DRIVERS[driver])
    if outcome.status is Status.SKIPPED:
        pytest.skip(outcome.reason)
    assert outcome.status is Status.PASSED, outcome.reason


def outcomes_of(driver: str, **options: Unpack[Options]) -> list[Outcome]:
    with older_servers_accepted(), ReplicaSet(**options) as server:
        deployment = Deployment.at(server.uri)
        return [test.run(deployment, DRIVERS[driver]) for test in TESTS]


@pytest.mark.parametrize("driver", DRIVERS)
def test_spec_on_a_single_server(driver: str) -> None:
    outcomes = outcomes_of(driver, replica_set=None)
    ran = [outcome for outcome in outcomes if outcome.status is not Status.SKIPPED]
    assert len(ran) == 2
    assert not [outcome for outcome in ran if outcome.status is Status.FAILED]


@pytest.mark.parametrize(
    "version",
    [pytest.param(version, marks=[pytest.mark.slow] if version == "4.2.24" else []) for version in OLDER],
)
def test_spec_on_older_servers(version: str) -> None:
    """Without PyMongo's stream, which follows the rules for the servers that it supports."""
    outcomes = outcomes_of("tailrace", server_version=version)
    assert not [outcome for outcome in outcomes if outcome.status is Status.FAILED]


def test_every_test_runs_somewhere(replica_set: Deployment) -> None:
    """Skipping depends only on requirements, so no test has to run."""
    servers = [replica_set, *(replace(replica_set, topology=name) for name in ("single", "sharded"))]
    servers += [replace(replica_set, version=parse_version(version)) for version in OLDER]
    assert not [test.name for test in TESTS if all(test.objection(server) for server in servers)]
