import itertools
from collections.abc import Iterator

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database

from tests.mongod.server.oplog import began
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running

_numbers = itertools.count()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RunningServer]:
    """One server for all tests that leave it unchanged."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def shared_client(shared_server: RunningServer) -> Iterator[MongoClient[Document]]:
    with connected(shared_server) as client:
        yield client


@pytest.fixture
def server(shared_server: RunningServer) -> Iterator[RunningServer]:
    """The shared server; fail points are turned off after the test."""
    yield shared_server
    shared_server.server.first.fail_points.disable_all()


@pytest.fixture
def uri(server: RunningServer) -> str:
    return server.uri


@pytest.fixture
def client(shared_client: MongoClient[Document], server: RunningServer) -> MongoClient[Document]:
    return shared_client


@pytest.fixture
def database(client: MongoClient[Document], server: RunningServer) -> Database[Document]:
    """A database for one test."""
    name = f"test_{next(_numbers)}"
    began[name] = server.server.last_write_time()
    return client[name]


@pytest.fixture
def items(database: Database[Document]) -> Collection[Document]:
    """A collection with three documents."""
    database.items.insert_many([{"_id": n, "x": 0} for n in range(1, 4)])
    return database.items


@pytest.fixture
def raw(server: RunningServer) -> Iterator[RawClient]:
    """A connection for raw messages."""
    with raw_client(server) as raw:
        yield raw


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    """A server for one test that would disturb others: step-downs, clocks, parameters."""
    with running() as server:
        yield server


@pytest.fixture
def own_client(own_server: RunningServer) -> Iterator[MongoClient[Document]]:
    with connected(own_server) as client:
        yield client
