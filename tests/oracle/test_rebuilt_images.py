"""Images that Tailrace rebuilds are those that a real server shows where it stores them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.history_builder import HistoryBuilder
from tests.oracle.real_server import RealReplicaSet
from tests.oracle.seeds import SEEDS
from tests.support.fronted import Fronted
from tests.support.image_twins import check_twins, check_twins_after_snapshot

OPERATIONS = 80


@pytest.fixture(scope="module")
def front(real_set: RealReplicaSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fronted]:
    history = tmp_path_factory.mktemp("images") / "history"
    with DeploymentSource(real_set.uri) as read:
        HistoryBuilder(read, history).build()
    with Fronted(real_set.uri, history=history, rebuilds_images=True) as found:
        yield found


@pytest.mark.slow  # and in `make oracle`
@pytest.mark.parametrize("seed", SEEDS)
def test_streams_show_what_a_real_server_shows(real_set: RealReplicaSet, front: Fronted, seed: int) -> None:
    with real_set.client() as client:
        check_twins(client, front.client(), seed, OPERATIONS)


@pytest.mark.slow  # and in `make oracle`
@pytest.mark.parametrize("by_front", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_documents_from_before_the_history_are_known_from_a_snapshot_on(
    real_set: RealReplicaSet, tmp_path: Path, seed: int, by_front: bool
) -> None:
    seed += 100_000 * by_front  # names of databases
    with real_set.client() as client:
        check_twins_after_snapshot(client, real_set.uri, tmp_path, seed, OPERATIONS, by_front=by_front)
