from collections.abc import Iterator

import pytest

from tailrace.testing.replica_set import ReplicaSet
from tests.client.shells import SHELLS


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """The stream that a test uses: blocking or asyncio."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def server() -> Iterator[ReplicaSet]:
    """A replica set for the tests of one file: they set fail points, which must not affect other files."""
    with ReplicaSet() as replica_set:
        yield replica_set
