"""The scripts under `examples/` run and give the documented results."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from deltalake import DeltaTable
from pymongo.collection import Collection
from pyspark.sql import SparkSession

from examples.keep_changelog import keep_changelog
from examples.mirror_collection import count_by, mirror_collection
from examples.read_history import activity, read_history
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.schema import SCHEMA
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet


def changes_of_all_kinds(orders: "Collection[dict[str, Any]]", first: int) -> None:
    orders.insert_many([{"_id": first + number, "state": "new", "n": number} for number in range(20)])
    orders.update_many({"n": {"$lt": 10}}, {"$set": {"state": "paid"}, "$inc": {"version": 1}})
    orders.replace_one({"_id": first + 3}, {"state": "replaced", "lines": [1, {"two": 2.5}]})
    orders.delete_many({"_id": {"$gte": first + 15}})


def test_a_mirror_ends_equal_to_the_collection_and_can_be_asked(spark: SparkSession, tmp_path: Path) -> None:
    with ReplicaSet() as source:
        orders = source.client().shop.orders
        changes_of_all_kinds(orders, 0)
        table = mirror_collection(spark, source.uri, "shop.orders", tmp_path / "lake")
        assert count_by(table, "state") == {"new": 5, "paid": 9, "replaced": 1}
        changes_of_all_kinds(orders, 100)
        orders.insert_one({"_id": "text", "state": 5})
        assert mirror_collection(spark, source.uri, "shop.orders", tmp_path / "lake") == table
        found = MirrorTable.open(table).documents()
        assert found == [encode(document) for document in orders.find().sort("_id")]
    rows = DeltaTable(table).to_pyarrow_table(columns=["_id", "n", "lines", "_token"])
    assert rows.num_rows == len(found)
    drift = DeltaTable(str(tmp_path / "lake" / "_schema_changes")).to_pyarrow_table().to_pylist()
    assert {(row["path"], row["what"]) for row in drift} >= {("_id", "type added"), ("state", "type added")}


@pytest.mark.slow
def test_the_tour_of_mirrors_runs_cell_by_cell(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a notebook does it, in the session that is there."""
    found = runpy.run_path("examples/mirror_tour.py")
    ((path, reason),) = found["letters"].select("_path", "_reason").rows()
    assert (path, reason.rpartition(", ")[2]) == ("lines", 'the document has a string: "none"')
    assert found["by_state"].rows() == [("new", 1), ("paid", 2)]
    assert found["read"] == 3
    assert capsys.readouterr().out.count("|read ") == 3


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A history of two collections, one of them with images."""
    path = tmp_path_factory.mktemp("history") / "table"
    with ReplicaSet() as source:
        shop = source.client().shop
        shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
        builder = HistoryBuilder(source.server.store, path)
        changes_of_all_kinds(shop.orders, 0)
        builder.build()
        shop.customers.insert_one({"_id": "anna"})
        builder.build()
    return str(path)


@pytest.mark.slow
def test_a_changelog_has_documents_before_and_after(
    spark: SparkSession, history: str, tmp_path: Path
) -> None:
    assert keep_changelog(spark, history, "shop.orders", tmp_path / "changelog").awaitTermination(180)
    kept = spark.read.parquet(str(tmp_path / "changelog"))
    counts = {row["_change_type"]: row["count"] for row in kept.groupBy("_change_type").count().collect()}
    assert counts == {"insert": 20, "update_preimage": 11, "update_postimage": 11, "delete": 5}
    images = kept.where("_change_type = 'update_preimage'").select("fullDocument").collect()
    assert all('"state"' in row["fullDocument"] for row in images)
    assert kept.where("fullDocument IS NULL").count() == 0


def test_a_history_read_by_plain_spark(spark: SparkSession, history: str) -> None:
    events = read_history(spark, history)
    assert events.columns == SCHEMA.names
    shown = [(row["coll"], row["operation"], row["events"]) for row in activity(events).collect()]
    assert [entry for entry in shown if entry[1] not in ("create", "createIndexes")] == [
        ("customers", "insert", 1),
        ("orders", "delete", 5),
        ("orders", "insert", 20),
        ("orders", "replace", 1),
        ("orders", "update", 10),
    ]
    keys = events.where("operation = 'replace'").select("document_key", "shard", "uuid").collect()
    assert [row["document_key"] for row in keys] == ['{"_id": {"$numberInt": "3"}}']
    tokens = [row["token"] for row in events.orderBy("cluster_time", "token").select("token").collect()]
    assert tokens == sorted(set(tokens))
