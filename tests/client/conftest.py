from collections.abc import Iterator

import pytest

from tailrace.testing.replica_set import ReplicaSet
from tests.client.shells import SHELLS


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Which of the two shells a test drives."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def server() -> Iterator[ReplicaSet]:
    """A replica set for the tests of one file: they switch on fail points, so it is not the shared one."""
    with ReplicaSet() as replica_set:
        yield replica_set
