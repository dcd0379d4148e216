"""Pytest fixtures: a replica set for any test suite, with a new database for each test.

Pytest loads this file in every project that has Tailrace installed, so it imports nothing until a fixture is
requested. The tests of a process share one server. Tests that would disturb others (step-downs, a truncated
oplog, restarts) use `tailrace_own_server`, which starts in milliseconds.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.database import Database

    from tailrace.mongod.server.emulation.fail_points import FailPoint
    from tailrace.testing.in_thread import Mode
    from tailrace.testing.replica_set import ReplicaSet

Document = dict[str, Any]
FailPointSetter = Callable[..., "FailPoint"]
"""Called like `ReplicaSet.fail_point`; the fail point is switched off after the test."""

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def tailrace_server() -> Iterator["ReplicaSet"]:
    """The replica set that the tests of this process share."""
    from tailrace.testing.replica_set import ReplicaSet

    with ReplicaSet() as replica_set:
        yield replica_set


@pytest.fixture(scope="session")
def tailrace_uri(tailrace_server: "ReplicaSet") -> str:
    """The shared set's connection string, for another driver."""
    return tailrace_server.uri


@pytest.fixture(scope="session")
def tailrace_client(tailrace_server: "ReplicaSet") -> "MongoClient[Document]":
    """PyMongo on the shared set."""
    return tailrace_server.client()


@pytest.fixture
def tailrace_database(
    tailrace_server: "ReplicaSet", tailrace_client: "MongoClient[Document]"
) -> Iterator["Database[Document]"]:
    """A database of the shared set for one test; dropped after the test."""
    name = f"test_{next(_numbers)}"
    yield tailrace_client[name]
    # A fail point could refuse the drop; an open transaction would delay it.
    tailrace_server.settle()
    tailrace_client.drop_database(name)


@pytest.fixture
def tailrace_fail_point(tailrace_server: "ReplicaSet") -> Iterator[FailPointSetter]:
    """A function that switches on fail points of the shared set; they are switched off after the test."""
    with ExitStack() as switched_on:

        def switch_on(
            name: str = "failCommand", mode: "Mode" = "alwaysOn", data: Mapping[str, Any] | None = None
        ) -> "FailPoint":
            return switched_on.enter_context(tailrace_server.fail_point(name, mode, data))

        yield switch_on


class Clock:
    def __init__(self, replica_set: "ReplicaSet") -> None:
        self._set = replica_set
        self._moved = 0.0

    def now(self) -> float:
        """Seconds since 1970 by the server's clock."""
        return self._set.wall.seconds()

    def advance(self, seconds: float) -> None:
        """Move the clock; what became due is done when this returns."""
        self._set.advance_clock(seconds)
        self._moved += seconds

    def restore(self) -> None:
        """Set the clock back to the time of day; cluster times never go back."""
        self._set.advance_clock(-self._moved)
        self._moved = 0.0


@pytest.fixture
def tailrace_clock(tailrace_server: "ReplicaSet") -> Iterator[Clock]:
    """The shared set's clock; set back to the time of day after the test."""
    clock = Clock(tailrace_server)
    yield clock
    clock.restore()


@pytest.fixture
def tailrace_own_server() -> Iterator["ReplicaSet"]:
    """A replica set for one test, which may disturb it in any way."""
    from tailrace.testing.replica_set import ReplicaSet

    with ReplicaSet() as replica_set:
        yield replica_set
