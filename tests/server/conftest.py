import itertools
from collections.abc import Iterator

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from tests.server.running import Document, RunningServer, connected, running

_numbers = itertools.count()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RunningServer]:
    """One server for all tests that leave it as they found it."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def shared_client(shared_server: RunningServer) -> Iterator[MongoClient[Document]]:
    with connected(shared_server) as client:
        yield client


@pytest.fixture
def server(shared_server: RunningServer) -> Iterator[RunningServer]:
    """The shared server; fail points are off behind the test."""
    yield shared_server
    shared_server.server.fail_points.disable_all()


@pytest.fixture
def uri(server: RunningServer) -> str:
    return server.uri


@pytest.fixture
def client(shared_client: MongoClient[Document], server: RunningServer) -> MongoClient[Document]:
    return shared_client


@pytest.fixture
def database(client: MongoClient[Document]) -> Database[Document]:
    """A database that no other test uses."""
    return client[f"test_{next(_numbers)}"]


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    """A server of the test's own, for what would disturb others: step-downs, clocks, parameters."""
    with running() as server:
        yield server


@pytest.fixture
def own_client(own_server: RunningServer) -> Iterator[MongoClient[Document]]:
    with connected(own_server) as client:
        yield client
