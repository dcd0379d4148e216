"""Sizes of batches, and into how many pieces they are cut: by bytes and the cores of the cluster."""

from pathlib import Path

import pytest

from tailrace.pipeline.history.batches import BatchPlan, BatchPlanner
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.archives.files import FilesSource
from tests.support.bulk import generate_bulk
from tests.support.history import dump


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> FilesSource:
    path = tmp_path_factory.mktemp("parts") / "oplog.bson"
    path.write_bytes(dump(list(generate_bulk(8, 4000))))
    return FilesSource({"": [str(path)]})


@pytest.mark.parametrize(
    ("cores", "small", "least", "most"), [(2, 100, 4, 4), (50, 100, 20, 40), (50, 1500, 2, 3)]
)
def test_pieces_are_limited_by_cores_and_by_bytes(
    source: FilesSource, tmp_path: Path, cores: int, small: int, least: int, most: int
) -> None:
    settings = PipelineSettings(tmp_path / "history", interval=None, small_entries=small)
    planner = BatchPlanner(BatchPlan(source, settings, 0, cores))
    planner.fix_end()
    start = planner.first_offset()
    assert least <= len(planner.pieces(start, planner.next_offset(start))) <= most


def test_limits_of_a_batch_grow_with_the_cluster(tmp_path: Path) -> None:
    settings = PipelineSettings(tmp_path / "history")
    assert settings.limits(2) == (2_000_000, 1 << 30)
    assert settings.limits(100) == (20_000_000, 200 * (32 << 20))
    assert PipelineSettings(tmp_path, max_entries=5, max_bytes=6).limits(100) == (5, 6)
