"""Streams of a server without a head, while Spark builds its history."""

from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pyspark.sql import SparkSession

from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.wire_streams import WireStream
from tests.spark.pipeline_runs import newest_time, running
from tests.support.client_workload import ClientWorkload

IMAGES = {"fullDocumentBeforeChange": "whenAvailable", "fullDocument": "whenAvailable"}
MATCH = {"$match": {"operationType": {"$in": ["insert", "update", "drop"]}}}


def streams(client: "MongoClient[Any]", database: str, start: Any) -> list[WireStream]:
    """Return streams of several scopes and options with the same start."""
    begin = {"startAtOperationTime": start}
    return [
        WireStream(client, "", {"showExpandedEvents": True, **IMAGES, **begin}),
        WireStream(client, database, begin, sizes=(7, 101)),
        WireStream(client, database, {"showRawUpdateDescription": True, **begin}, [MATCH]),
    ]


def test_the_history_that_spark_builds_gives_the_events_of_the_oplog(
    spark: SparkSession, tmp_path: Path
) -> None:
    options: Any = {"data": tmp_path / "data", "history": tmp_path / "history"}
    with ReplicaSet(head=False, **options) as replica_set, DeploymentSource(replica_set.uri) as source:
        client = replica_set.client()
        workload = ClientWorkload(client, 4, "headless")
        start = newest_time(client)
        with running(spark, source, tmp_path / "history", interval=0):
            workload.run(60)
            with client[workload.databases[0]].watch(max_await_time_ms=5000) as waiting:
                client[workload.databases[0]].late.insert_one({"_id": 1})
                assert next(waiting)["documentKey"] == {"_id": 1}
            workload.run(60)
            end = newest_time(client)
            found = [stream.all_events(end) for stream in streams(client, workload.databases[0], start)]
    with ReplicaSet(data=tmp_path / "data") as replica_set:
        again = streams(replica_set.client(), workload.databases[0], start)
        assert found == [stream.all_events(end) for stream in again]
    assert min(map(len, found)) > 20
