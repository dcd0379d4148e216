"""A real mongod for each test process, and Tailrace beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tailrace.testing.replica_set import ReplicaSet
from tests.oracle.real_server import RealReplicaSet, missing_mongod, real_replica_set
from tests.oracle.seeds import IS_SHORT, some
from tests.oracle.twins import RELEASE, Twins

_FOLDER: Final = Path(__file__).parent
_MOST_CASES: Final = 3
"""Of one test in `make test`, which has about two minutes for these comparisons."""


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In `make test` a sample of the cases of each test; `make oracle` runs all."""
    if not IS_SHORT:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = {item for found in cases.values() for item in found} - {
        item for found in cases.values() for item in some(found, _MOST_CASES)
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
