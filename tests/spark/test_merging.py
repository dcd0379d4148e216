"""Compaction by tasks of Spark: the same rows in fewer files."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.errors import TailraceError
from tailrace.lake.compaction import compact
from tailrace.lake.table import HistoryTable
from tailrace.spark.task_runs import SparkMerge, merging_tasks
from tests.lake.stored import canonical_events, fill, new_table
from tests.support.whole_events import whole_events
from tests.support.workload import generate


def shown(table: HistoryTable) -> list[bytes | None]:
    return [raw for batch in table.read(0) for raw in whole_events(batch)]


def test_tasks_merge_files_and_the_driver_commits_them(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path)
    fill(table, canonical_events(generate(20261120, operations=80)), pieces=12)
    before = shown(table)
    merge = SparkMerge(spark, 2)
    assert compact(table, merge, min_files=2, target_bytes=table.size // 3) == 12
    assert 1 < len(table.files) < 6
    assert all(file.path.startswith("merged-") for file in table.files)
    assert shown(table) == shown(HistoryTable.open(tmp_path)) == before
    assert compact(table, merge, min_files=9) == 0
    damaged = tmp_path / table.files[0].path
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(TailraceError, match="is damaged"):
        compact(table, merge, min_files=2)


def test_a_small_cluster_leaves_its_cores_to_batches() -> None:
    assert [merging_tasks(cores) for cores in (1, 2, 4, 100)] == [0, 0, 1, 25]
