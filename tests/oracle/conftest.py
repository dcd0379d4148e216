"""A real mongod for each test process, and Tailrace beside it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tailrace.testing.replica_set import ReplicaSet
from tests.oracle.real_server import RealReplicaSet, missing_mongod, real_replica_set
from tests.oracle.twins import RELEASE, Twins


@pytest.fixture(scope="session")
def real_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealReplicaSet]:
    """A real replica set of one member."""
    _skip_without_mongod()
    with real_replica_set(tmp_path_factory.mktemp("mongod")) as found:
        yield found


@pytest.fixture(scope="module")
def twins(real_set: RealReplicaSet) -> Iterator[Twins]:
    """The real server, emptied, and an empty server of ours that imitates its release."""
    with real_set.client() as client:
        client.admin.command("killAllSessions", [])  # a transaction that is open holds up a drop for a minute
        for name in client.list_database_names():
            if name not in ("admin", "config", "local"):
                client.drop_database(name)
        # A stream that starts at the time of the newest entry shows that entry.
        client.admin.command("appendOplogNote", data={})
    with _beside(real_set) as found:
        yield found


@pytest.fixture(scope="module")
def own_twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    """Servers of a module of their own, for changes of settings that cannot be undone."""
    _skip_without_mongod()
    with real_replica_set(tmp_path_factory.mktemp("mongod")) as real, _beside(real) as found:
        yield found


def _skip_without_mongod() -> None:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)


@contextmanager
def _beside(real: RealReplicaSet) -> Iterator[Twins]:
    with ReplicaSet(server_version=RELEASE) as ours:
        found = Twins(("127.0.0.1", real.members[0].port), ("127.0.0.1", ours.server.port))
        yield found
        found.close()
