"""Images that Tailrace rebuilds are those that a real server shows where it stores them."""

from collections.abc import Iterator

import pytest

from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.history_builder import HistoryBuilder
from tests.oracle.real_server import RealReplicaSet
from tests.oracle.seeds import SEEDS
from tests.support.fronted import Fronted
from tests.support.image_twins import check_twins

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
