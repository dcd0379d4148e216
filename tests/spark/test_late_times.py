"""Cluster times from January 2038 up to 2106, whose seconds need all 32 bits."""

from pathlib import Path
from typing import Any

import bson
from bson import Binary, DatetimeMS, Int64, Timestamp
from pyspark.sql import SparkSession

from tailrace import replay
from tailrace.lake.table import HistoryTable
from tailrace.sources.archives.files import FilesSource
from tests.spark.pipeline_runs import build_all
from tests.support.history import dump

LAST_SIGNED, LAST = 2**31 - 1, 2**32 - 1
TIMES = [(LAST_SIGNED, 1), (LAST_SIGNED, LAST), (2**31, 1), (2**31, 2), (LAST, 1), (LAST, LAST - 1)]
UUID = Binary(bytes(range(16)), 4)


def entry(number: int, time: tuple[int, int]) -> bytes:
    document = {"_id": number, "text": "x"}
    return bson.encode({
        "op": "i", "ns": "shop.orders", "ui": UUID, "o": document, "o2": {"_id": number},
        "ts": Timestamp(*time), "t": Int64(1), "v": Int64(2), "wall": DatetimeMS(time[0] * 1000),
    })  # fmt: skip


def shown(spark: SparkSession, **options: Any) -> list[tuple[dict[str, Any], int]]:
    frame = spark.read.format("tailrace").options(output="event", documentsAs="bson", **options).load()
    seconds = "shiftrightunsigned(clusterTime, 32) AS seconds"
    rows = frame.selectExpr("event", seconds).collect()
    return [(bson.decode(bytes(row["event"])), row["seconds"]) for row in rows]


def test_pipeline_history_streams_and_rows(spark: SparkSession, tmp_path: Path) -> None:
    oplog, history = tmp_path / "oplog.bson", tmp_path / "history"
    oplog.write_bytes(dump([entry(number, time) for number, time in enumerate(TIMES)]))
    expected = list(replay(oplog))
    assert [(event["clusterTime"].time, event["clusterTime"].inc) for event in expected] == TIMES
    table = build_all(spark, FilesSource({"": [str(oplog)]}), history)
    assert (table.rows, table.through >> 32) == (len(TIMES), LAST)
    assert HistoryTable.open(history).through == table.through
    rows = spark.read.parquet(*[str(history / file.path) for file in table.files]).orderBy("token").collect()
    assert [(int(row["cluster_time"].timestamp()), row["increment"]) for row in rows] == TIMES
    every = [(event, event["clusterTime"].time) for event in expected]
    for source in ({"oplog": str(oplog)}, {"history": str(history)}):
        assert shown(spark, **source) == every
        for number in (1, 3):
            token = expected[number]["_id"]["_data"]
            assert shown(spark, resumeAfter=token, **source) == every[number + 1 :]
