"""The stream tests run twice: on head and oplog, and on the history alone."""

from collections.abc import Iterator

import pytest
from pymongo import MongoClient

from tests.mongod.server.headless import running_headless
from tests.mongod.server.running import Document, RunningServer, connected, running


@pytest.fixture(scope="session", params=["head", "history"])
def tier(request: pytest.FixtureRequest) -> str:
    """What streams read."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def shared_server(tier: str) -> Iterator[RunningServer]:
    """One server for all tests that leave it as they found it."""
    with running() if tier == "head" else running_headless() as server:
        yield server


@pytest.fixture(scope="session")
def shared_client(shared_server: RunningServer) -> Iterator[MongoClient[Document]]:
    """Its client; one of its own, as other tests have another server."""
    with connected(shared_server) as client:
        yield client


@pytest.fixture
def own_server(tier: str) -> Iterator[RunningServer]:
    """A server of the test's own."""
    with running() if tier == "head" else running_headless() as server:
        yield server
