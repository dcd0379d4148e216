"""Filters of queries on ``format("tailrace")``: what is not wanted is not read."""

from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tailrace.events.interval import Interval
from tailrace.lake.commit import commit
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.build import build
from tailrace.sources.archives.files import FilesSource
from tailrace.spark import register
from tests.support.bulk import generate_bulk
from tests.support.history import dump, timestamp_of

COUNT = 3000


@pytest.fixture(scope="module")
def oplog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "oplog.bson"
    path.write_bytes(dump(list(generate_bulk(5, COUNT))))
    return path


@pytest.fixture(scope="module")
def history(oplog: Path) -> Path:
    """A table of two files; the second one begins with the 2000th entry."""
    folder = oplog.parent / "history"
    source = FilesSource({"": [str(oplog)]})
    table = HistoryTable.create(folder, identity=source.identity(), begins=0)
    cut = timestamp_of(list(generate_bulk(5, COUNT))[1999])
    for after, through in pairwise((0, cut, source.promised())):
        commit(table, build(source, Interval(after, through), folder).files, after=after, through=through)
        table.refresh()
    return folder


def filters_left(frame: DataFrame) -> bool:
    """Whether Spark evaluates a filter itself."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return "Filter" in plan.replace("RuntimeFilters", "")


def test_filters_reach_the_source(spark: SparkSession, oplog: Path, history: Path) -> None:
    register(spark)
    last = HistoryTable.open(history).files[1]
    for source in ({"oplog": str(oplog)}, {"history": str(history)}):
        columns = "token,operationType,clusterTime,wallTime,ns"
        frame = spark.read.format("tailrace").options(columns=columns, partitions=4, **source).load()
        rows = frame.collect()
        assert len(rows) > COUNT
        assert frame.rdd.getNumPartitions() == 4
        since = next(row for row in rows if row.clusterTime >= last.first_time)
        moment = since.wallTime.isoformat()
        late = [row for row in rows if row.clusterTime >= since.clusterTime]
        for condition, expected in (
            (f"clusterTime >= {since.clusterTime}", late),
            (f"clusterTime = {since.clusterTime}", [row for row in late if row[2] == since.clusterTime]),
            (f"wallTime >= TIMESTAMP '{moment}Z'", [row for row in rows if row.wallTime >= since.wallTime]),
            ("operationType IN ('delete', 'drop')", [row for row in rows if row[1] == "delete"]),
            ("ns.db = 'shop' AND ns.coll = 'orders' AND operationType = 'update'",
             [row for row in rows if row[1] == "update" and row.ns.coll == "orders"]),
            ("ns.coll = 'others'", []),
        ):  # fmt: skip
            chosen = frame.where(condition)
            assert not filters_left(chosen), condition
            assert chosen.collect() == expected, condition
        # Tokens narrow the interval; Spark compares them, and what the source does not know.
        resumed = frame.where(f"token > '{since.token}' AND length(operationType) > 3")
        assert filters_left(resumed)
        assert resumed.collect() == late[1:]
        assert frame.where(f"clusterTime > {rows[-1].clusterTime}").rdd.getNumPartitions() == 1


def test_files_without_wanted_rows_are_not_opened(spark: SparkSession, history: Path) -> None:
    register(spark)
    table = HistoryTable.open(history)
    first, second = table.files
    reader = spark.read.format("tailrace").option("columns", "token,clusterTime,wallTime")
    frame = reader.option("history", str(history)).load()
    (history / first.path).rename(history / "elsewhere")
    try:
        wall = f"timestamp_millis({second.last_wall})"
        assert 0 < frame.where(f"clusterTime > {first.last_time}").count() <= second.rows
        assert frame.where(f"token >= '{second.first_token}'").count() > 0
        assert frame.where(f"wallTime >= {wall}").count() > 0
    finally:
        (history / "elsewhere").rename(history / first.path)
