"""Change streams as DataFrames: from files, a deployment and a history, in batch and streaming."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import ObjectId, encode
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from tailrace import read_history
from tailrace.errors import CommandError, UsageError
from tailrace.events.scope import Scope
from tailrace.spark import change_stream
from tailrace.spark.dataframes import stream_error
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.frames import events_of, micro_batches, rows_of
from tests.support.history import dump
from tests.support.seeds import history_of
from tests.support.streams import Stream

AS_EVENTS: dict[str, Any] = {"output": "event", "documentsAs": "bson"}


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet() as running:
        yield running


def test_a_stream_of_archived_oplogs_of_shards(spark: SparkSession, tmp_path: Path) -> None:
    history = history_of(20260004)
    logs = history.split(3)
    paths: dict[str, str] = {}
    for number, log in enumerate(logs):
        path = tmp_path / f"shard{number}.bson"
        path.write_bytes(dump(log))
        paths[f"shard{number}"] = str(path)
    expected = Stream(history, Scope.cluster(), {"showExpandedEvents": True}).events(logs)
    frame = change_stream(spark, paths, options={"showExpandedEvents": True}, **AS_EVENTS)
    assert events_of(frame) == expected
    streamed = change_stream(
        spark,
        paths,
        options={"showExpandedEvents": True},
        streaming=True,
        maxEntriesPerTrigger=max(len(history.entries) // 3, 1),
        **AS_EVENTS,
    )
    batches = micro_batches(streamed, tmp_path / "checkpoint", rows_of)
    assert len(batches) > 1
    assert [bytes(row["event"]) for rows in batches for row in rows] == expected


def test_a_stream_of_a_deployment_in_columns(spark: SparkSession, replica_set: ReplicaSet) -> None:
    orders = replica_set.client().columns.orders
    key = ObjectId()
    orders.database.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    orders.insert_one({"_id": key, "item": "teapot", "count": 2, "parts": [{"lid": True}]})
    orders.update_one({"_id": key}, {"$set": {"count": 3}, "$unset": {"parts": 1}})
    orders.delete_one({"_id": key})
    replica_set.client().columns.others.insert_one({"_id": 1})
    options = {"fullDocumentBeforeChange": "whenAvailable"}
    frame = change_stream(spark, replica_set.uri, "columns.orders", options, changelog=True)
    found = frame.selectExpr(
        "operationType",
        "_change_type",
        "ns.coll",
        "variant_get(documentKey, '$._id', 'string') AS key",
        "variant_get(fullDocument, '$.count', 'int') AS count",
        "variant_get(fullDocument, '$.parts[0].lid', 'boolean') AS lid",
        "updateDescription.removedFields AS removed",
        "token < lead(token) OVER (ORDER BY token) AS ascends",
        "_commit_version = clusterTime AND _commit_timestamp IS NOT NULL AND wallTime IS NOT NULL AS dated",
    ).collect()
    assert [tuple(row)[:7] for row in found] == [
        ("insert", "insert", "orders", str(key), 2, True, None),
        ("update", "update_preimage", "orders", str(key), 2, True, ["parts"]),
        ("update", "update_postimage", "orders", str(key), None, None, ["parts"]),
        ("delete", "delete", "orders", str(key), 3, None, None),
    ]
    assert all(row["dated"] for row in found)


def test_a_streaming_query_continues_where_it_stopped(
    spark: SparkSession, replica_set: ReplicaSet, tmp_path: Path
) -> None:
    counts = replica_set.client().streaming.counts
    start = {"startAtOperationTime": replica_set.cluster_time}
    counts.insert_many([{"_id": number} for number in range(10)])
    frame = change_stream(
        spark,
        replica_set.uri,
        "streaming.counts",
        start,
        [{"$match": {"documentKey._id": {"$gte": 3}}}],
        streaming=True,
        schema="documentKey STRUCT<_id: INT>, operationType STRING",
    )
    first = micro_batches(frame, tmp_path / "checkpoint", rows_of)
    for number in range(5):
        counts.delete_one({"_id": number})
    counts.drop()
    counts.insert_one({"_id": 100})
    second = micro_batches(frame, tmp_path / "checkpoint", rows_of)
    third = micro_batches(frame, tmp_path / "checkpoint", rows_of)

    def shown(batches: list[list[Any]]) -> list[tuple[str, int | None]]:
        rows = [row for batch in batches for row in batch]
        return [(row["operationType"], row["documentKey"] and row["documentKey"]["_id"]) for row in rows]

    assert shown(first) == [("insert", number) for number in range(3, 10)]
    # The filter hides the drop and the invalidation, but the stream ends there.
    assert shown(second) == [("delete", 3), ("delete", 4)]
    assert shown(third) == []


def test_a_history_gives_the_events_of_the_deployment(spark: SparkSession, tmp_path: Path) -> None:
    with ReplicaSet() as source:
        orders = source.client().shop.orders
        orders.insert_many([{"_id": number, "size": number * 10} for number in range(50)])
        orders.update_many({}, {"$inc": {"size": 1}})
        HistoryBuilder(source.server.store, tmp_path / "history").build()
        live = events_of(change_stream(spark, source.uri, "shop.orders", partitions=2, **AS_EVENTS))
    frame = spark.read.format("tailrace").option("ns", "shop.orders").options(**AS_EVENTS)
    recorded = events_of(frame.option("history", str(tmp_path / "history")).load())
    assert len(recorded) == 100
    assert recorded == live


def test_images_are_rebuilt_from_a_history(spark: SparkSession, tmp_path: Path) -> None:
    options = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
    history = str(tmp_path / "history")
    with ReplicaSet() as source:
        orders = source.client().shop.orders
        orders.insert_many([{"_id": number, "n": 0} for number in range(50)])
        for _ in range(4):
            orders.update_many({}, {"$inc": {"n": 1}})
        orders.delete_many({})
        HistoryBuilder(source.server.store, history).build()
    expected = [*read_history(history, "shop.orders", options, images="rebuilt")]
    assert [event["fullDocumentBeforeChange"]["n"] for event in expected[50:]] == [
        number // 50 for number in range(250)
    ]
    rows = {"images": "rebuilt", **AS_EVENTS}
    batch = change_stream(spark, history, "shop.orders", options, partitions=3, **rows)
    assert [bson.decode(event) for event in events_of(batch)] == expected
    with pytest.raises(UsageError, match="images are rebuilt from a history: name one"):
        change_stream(spark, "mongodb://localhost", "shop.orders", options, **rows)


def test_the_option_names_of_the_mongodb_connector(
    spark: SparkSession, replica_set: ReplicaSet, tmp_path: Path
) -> None:
    teas = replica_set.client().connector.teas
    before = replica_set.cluster_time.time
    teas.insert_one({"_id": 1, "name": "assam", "price": 3})
    teas.insert_one({"_id": 2, "name": "sencha", "price": "much"})
    teas.update_one({"_id": 1}, {"$set": {"price": 4}})
    teas.delete_one({"_id": 2})
    reader = (
        spark.readStream.format("tailrace")
        .option("spark.mongodb.connection.uri", replica_set.uri)
        .option("spark.mongodb.database", "connector")
        .option("spark.mongodb.collection", "teas")
        .option("change.stream.publish.full.document.only", "true")
        .option("change.stream.startup.mode", "timestamp")
        .option("change.stream.startup.mode.timestamp.start.at.operation.time", str(before))
        .option("change.stream.micro.batch.max.partition.count", "2")
        .option("aggregation.pipeline", '[{"$match": {"operationType": {"$in": ["insert", "update"]}}}]')
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", "corrupt")
        .option("readPreference.name", "primary")
        .schema("_id INT, name STRING, price INT, corrupt STRING")
    )
    rows = [row for batch in micro_batches(reader.load(), tmp_path / "checkpoint", rows_of) for row in batch]
    shown = [(row["_id"], row["name"], row["price"], row["corrupt"] is not None) for row in rows]
    # An insert shows the inserted document; for an update the current document is looked up.
    assert shown == [
        (1, "assam", 3, False),
        (2, "sencha", None, True),
        (1, "assam", 4, False),
    ]


def test_invalid_options_are_refused_when_the_stream_is_opened(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "oplog.bson"
    path.write_bytes(dump(history_of(20260001).entries))
    with pytest.raises(CommandError) as unknown:
        change_stream(spark, str(path), "shop", {"fullDocuments": "required"})
    assert unknown.value.code == 40415
    with pytest.raises(UsageError, match="no option 'colection'"):
        change_stream(spark, str(path), colection="orders")
    with pytest.raises(PySparkException) as refused:
        spark.read.format("tailrace").option("oplog", str(path)).option("mode", "LENIENT").load()
    assert "the option mode must be one of FAILFAST, PERMISSIVE, DROPMALFORMED" in str(refused.value)


def test_an_error_of_the_stream_fails_the_query_with_its_code(
    spark: SparkSession, replica_set: ReplicaSet, tmp_path: Path
) -> None:
    orders = replica_set.client().failing.orders
    start = {"startAtOperationTime": replica_set.cluster_time}
    orders.insert_one({"_id": 1})
    orders.update_one({"_id": 1}, {"$set": {"a": 1}})
    options = {**start, "fullDocumentBeforeChange": "required"}
    frame = change_stream(spark, replica_set.uri, "failing.orders", options)
    with pytest.raises(PySparkException) as batch:
        frame.collect()
    error = stream_error(batch.value)
    assert error is not None
    assert error.code == 47
    streaming = change_stream(spark, replica_set.uri, "failing.orders", options, streaming=True)
    with pytest.raises(StreamingQueryException) as streamed:
        micro_batches(streaming, tmp_path / "checkpoint", rows_of)
    error = stream_error(streamed.value)
    assert error is not None
    assert error.code == 47


def test_of_several_errors_the_first_fails_the_query(spark: SparkSession, replica_set: ReplicaSet) -> None:
    orders = replica_set.client().failing.several
    start = {"startAtOperationTime": replica_set.cluster_time}
    for number in range(40):
        orders.insert_one({"_id": number, "a": 1})
    orders.update_one({"_id": 1}, {"$set": {"b": 1}})
    for number in range(40, 160):
        orders.insert_one({"_id": number, "a": "no number"})
    frame = change_stream(
        spark,
        replica_set.uri,
        "failing.several",
        {**start, "fullDocumentBeforeChange": "required"},
        [{"$set": {"quotient": {"$divide": ["$fullDocument.a", 2]}}}],
        partitions=4,
    )
    with pytest.raises(PySparkException) as failed:
        frame.collect()
    error = stream_error(failed.value)
    assert error is not None
    assert error.code == 47  # the later tasks fail with 14, and sooner


def test_modes_and_struct_schemas(spark: SparkSession, replica_set: ReplicaSet) -> None:
    people = replica_set.client().modes.people
    people.insert_many([{"_id": 1, "age": 30}, {"_id": 2, "age": "old"}, {"_id": 3, "age": 50.0}])
    given: dict[str, Any] = {"documentSchema": "_id INT, age INT"}
    dropped = change_stream(spark, replica_set.uri, "modes.people", **given, mode="DROPMALFORMED")
    assert [row[0] for row in dropped.select("fullDocument.age").collect()] == [30, 50]
    kept = change_stream(
        spark, replica_set.uri, "modes.people", **given, mode="PERMISSIVE", columnNameOfCorruptRecord="bad"
    )
    rows = kept.select("fullDocument.age", "bad").collect()
    assert [row["age"] for row in rows] == [30, None, 50]
    assert '"age": "old"' in rows[1]["bad"]
    strict = change_stream(spark, replica_set.uri, "modes.people", **given)
    with pytest.raises(PySparkException) as refused:
        strict.collect()
    error = stream_error(refused.value)
    assert error is not None
    assert "fullDocument.age is a string, which is no int" in error.message
    as_json = change_stream(spark, replica_set.uri, "modes.people", documentsAs="json", mode="FAILFAST")
    assert as_json.first()["fullDocument"] == '{"_id": {"$numberInt": "1"}, "age": {"$numberInt": "30"}}'  # type: ignore[index]
    some = [{"$set": {"more": 1}}]
    few = change_stream(
        spark, replica_set.uri, "modes.people", None, some, columns=["other", "operationType"]
    )
    assert few.columns == ["other", "operationType"]
    assert [(row[0].toPython(), row[1]) for row in few.collect()] == [({"more": 1}, "insert")] * 3
    as_bson = change_stream(spark, replica_set.uri, "modes.people", documentsAs="bson")
    assert bytes(as_bson.first()["fullDocument"]) == encode({"_id": 1, "age": 30})  # type: ignore[index]
