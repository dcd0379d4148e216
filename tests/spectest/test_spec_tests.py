"""The drivers' spec tests, with both drivers; the files are not part of this project.

`TAILRACE_SPEC_TESTS` names the folder that holds them; by default it is beside the project.
"""

import os
from pathlib import Path

import pytest

from tailrace.spectest.deployment import Deployment
from tailrace.spectest.drivers import DRIVERS
from tailrace.spectest.outcome import Status
from tailrace.spectest.suite import SpecTest, find_tests
from tailrace.testing.replica_set import ReplicaSet

VARIABLE = "TAILRACE_SPEC_TESTS"
FOLDER = Path(
    os.environ.get(VARIABLE) or Path(__file__).parents[3] / "shared" / "spec-tests" / "change-streams"
)
TESTS = find_tests([FOLDER]) if FOLDER.is_dir() else []

NOT_LABELLED = "change stream resumes after StaleShardVersion"
"""The code 63 was removed from servers; a test of the legacy format still expects its label."""

pytestmark = pytest.mark.skipif(not TESTS, reason=f"no spec tests in {FOLDER}; {VARIABLE} names their folder")


def name_of(test: SpecTest) -> str:
    return f"{test.file.parent.name}-{test.file.stem}-{test.name}"


@pytest.fixture(scope="module")
def replica_set(tailrace_server: ReplicaSet) -> Deployment:
    return Deployment.at(tailrace_server.uri)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("test", TESTS, ids=name_of)
def test_spec(test: SpecTest, driver: str, replica_set: Deployment) -> None:
    outcome = test.run(replica_set, DRIVERS[driver])
    if outcome.status is Status.FAILED and test.name == NOT_LABELLED:
        pytest.skip("the server does not label the code 63")
    if outcome.status is Status.SKIPPED:
        pytest.skip(outcome.reason)
    assert outcome.status is Status.PASSED, outcome.reason


@pytest.mark.parametrize("driver", DRIVERS)
def test_spec_on_a_single_server(driver: str) -> None:
    with ReplicaSet(replica_set=None) as server:
        deployment = Deployment.at(server.uri)
        outcomes = [test.run(deployment, DRIVERS[driver]) for test in TESTS]
    ran = [outcome for outcome in outcomes if outcome.status is not Status.SKIPPED]
    assert len(ran) == 2
    assert not [outcome for outcome in ran if outcome.status is Status.FAILED]
