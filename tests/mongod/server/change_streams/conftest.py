"""The stream tests run twice: on head and oplog, and on the history only."""

from collections.abc import Iterator

import pytest
from pymongo import MongoClient

from tests.mongod.server.headless import running_headless
from tests.mongod.server.running import Document, RunningServer, connected, running


@pytest.fixture(scope="session", params=["head", "history"])
def tier(request: pytest.FixtureRequest) -> str:
    """The tier that streams read."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def shared_server(tier: str) -> Iterator[RunningServer]:
    """One server for all tests that leave it unchanged."""
    with running() if tier == "head" else running_headless() as server:
        yield server


@pytest.fixture(scope="session")
def shared_client(shared_server: RunningServer) -> Iterator[MongoClient[Document]]:
    """Its client; not the one of other tests, which have another server."""
    with connected(shared_server) as client:
        yield client


@pytest.fixture
def own_server(tier: str) -> Iterator[RunningServer]:
    """A server for one test."""
    with running() if tier == "head" else running_headless() as server:
        yield server
