"""Streams that begin with the documents of a real server: Spark's, and consumer groups."""

from pathlib import Path

import pytest

from tests.client.groups.test_group_snapshot import check_snapshot
from tests.oracle.real_server import RealReplicaSet
from tests.oracle.seeds import SEEDS
from tests.spark.test_snapshot_streams import check_reads_and_changes

pytestmark = pytest.mark.slow  # and in `make oracle`


@pytest.mark.parametrize("seed", SEEDS)
def test_reads_and_changes_are_the_collections(real_set: RealReplicaSet, seed: int) -> None:
    check_reads_and_changes(real_set.uri, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_reads_every_document_once_and_misses_no_change(
    real_set: RealReplicaSet, seed: int, tmp_path: Path
) -> None:
    with real_set.client() as client:
        client.drop_database(f"group{seed}")
        orders = client[f"group{seed}"].orders
        check_snapshot(real_set.uri, "sync", orders, seed, positions=str(tmp_path / "positions"))
