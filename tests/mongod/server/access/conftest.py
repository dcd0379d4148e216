import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pymongo import MongoClient

from tests.mongod.server.running import Document, RunningServer, connected, running

Client = MongoClient[Document]
ROOT = ("root", "the first password")
_numbers = itertools.count()


@pytest.fixture(scope="session")
def guarded() -> Iterator[RunningServer]:
    """A server with access control and one administrator."""
    with running(auth=True, first_user=ROOT) as server:
        yield server


@pytest.fixture(scope="session")
def root(guarded: RunningServer) -> Iterator[Client]:
    with connected(guarded, username=ROOT[0], password=ROOT[1]) as client:
        yield client


@pytest.fixture
def place(root: Client) -> str:
    """A database for one test, with a collection."""
    name = f"place_{next(_numbers)}"
    root[name].orders.insert_one({"_id": 1})
    return name


@pytest.fixture
def as_user(guarded: RunningServer, root: Client) -> Iterator[Callable[..., Client]]:
    """Create a user with roles and return a client that is logged in as this user."""
    with ExitStack() as stack:

        def create(roles: list[Any], database: str = "admin", password: str = "pw") -> Client:
            name = f"user_{next(_numbers)}"
            root[database].command("createUser", name, pwd=password, roles=roles)
            client = connected(guarded, username=name, password=password, authSource=database)
            return stack.enter_context(client)

        yield create
