"""Pytest fixtures: a replica set for any test suite, with a new database for each test.

Pytest loads this file in every project that has Tailrace installed, so it imports nothing until a fixture is
requested. The tests of a process share one server. Tests that would disturb others (step-downs, a truncated
oplog, restarts) use `tailrace_own_server`, which starts in milliseconds.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient, MongoClient
    from pymongo.database import Database

    from tailrace.mongod.server.emulation.fail_points import FailPoint
    from tailrace.testing.in_thread import Mode
    from tailrace.testing.replica_set import ReplicaSet
    from tailrace.testing.sharded_cluster import ShardedCluster

S = TypeVar("S")
MARKER = "tailrace"
Document = dict[str, Any]
FailPointSetter = Callable[..., "FailPoint"]
"""Called like `ReplicaSet.fail_point`; the fail point is switched off after the test."""

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("tailrace_members", "members of the shared replica set; default: 1", default="1")
    parser.addini("tailrace_server_version", "the MongoDB release that the servers present")
    parser.addini("tailrace_parameters", "server parameters, NAME=VALUE, one to a line", "linelist")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**options): options of tailrace_own_server or tailrace_sharded_cluster in a test, such as "
        "members=3 or shards=2",
    )


def _options(config: pytest.Config) -> dict[str, Any]:
    """The options of all servers, from the ini file."""
    found: dict[str, Any] = {}
    if config.getini("tailrace_server_version"):
        found["server_version"] = config.getini("tailrace_server_version")
    parameters = [line.partition("=") for line in config.getini("tailrace_parameters")]
    if parameters:
        found["parameters"] = {name.strip(): value.strip() for name, _, value in parameters}
    return found


def _marked(request: pytest.FixtureRequest, *, others: Collection[str]) -> dict[str, Any]:
    """The options of a test's own server: those of the ini file, then those of its marks.

    ``others`` are options that the server of this fixture does not have.
    """
    from tailrace.testing.in_thread import Options

    found: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        if mark.args:
            pytest.fail(
                f"pytest.mark.{MARKER} takes options with their names, such as members=3", pytrace=False
            )
        found |= mark.kwargs
    known = {"log", "builds_history", "shards", "routers", *Options.__annotations__} - set(others)
    for name in found.keys() - known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        if name in others:
            hint = ": it is for another kind of server, with a fixture of its own"
        pytest.fail(f"{request.fixturename} has no option {name}{hint}", pytrace=False)
    return {**_options(request.config), **found}


@contextmanager
def _started(make: Callable[[], AbstractContextManager[S]]) -> Iterator[S]:
    """A server for a fixture; wrong options are one sentence."""
    from tailrace.errors import TailraceError

    reason = ""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(make())
        except TailraceError as error:
            reason = str(error)
        if reason:  # outside of the handler, or pytest shows both
            pytest.fail(reason, pytrace=False)
        yield server


@pytest.fixture(scope="session")
def tailrace_server(pytestconfig: pytest.Config) -> Iterator["ReplicaSet"]:
    """The replica set that the tests of this process share."""
    from tailrace.testing.replica_set import ReplicaSet

    members = pytestconfig.getini("tailrace_members").strip()
    if not members.isdecimal():
        pytest.fail(f"tailrace_members is a whole number, not {members}", pytrace=False)
    with _started(lambda: ReplicaSet(members=int(members), **_options(pytestconfig))) as replica_set:
        yield replica_set


@pytest.fixture(scope="session")
def tailrace_uri(tailrace_server: "ReplicaSet") -> str:
    """The shared set's connection string, for another driver."""
    return tailrace_server.uri


@pytest.fixture(scope="session")
def tailrace_client(tailrace_server: "ReplicaSet") -> "MongoClient[Document]":
    """PyMongo on the shared set."""
    return tailrace_server.client()


@pytest.fixture(scope="session")
def tailrace_async_client(tailrace_uri: str) -> Callable[..., "AsyncMongoClient[Document]"]:
    """A function that returns an asynchronous client of the shared set.

    Such a client belongs to one event loop, so each test makes and closes its own.
    """
    from pymongo import AsyncMongoClient

    return lambda **options: AsyncMongoClient(tailrace_uri, **options)


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
def tailrace_own_server(request: pytest.FixtureRequest) -> Iterator["ReplicaSet"]:
    """A replica set for one test, which may disturb it; `pytest.mark.tailrace` sets its options."""
    from tailrace.testing.replica_set import ReplicaSet

    options = _marked(request, others=["shards", "routers"])
    with _started(lambda: ReplicaSet(**options)) as replica_set:
        yield replica_set


@pytest.fixture
def tailrace_sharded_cluster(request: pytest.FixtureRequest) -> Iterator["ShardedCluster"]:
    """A sharded cluster for one test, by default of two shards; `pytest.mark.tailrace` sets its options."""
    from tailrace.testing.sharded_cluster import ShardedCluster

    options = _marked(request, others=["builds_history"])
    with _started(lambda: ShardedCluster(**options)) as cluster:
        yield cluster
