"""Passwords of deployments in Spark: sources log in, and plans do not show them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.spark.dataframes import change_stream
from tailrace.testing.replica_set import ReplicaSet

PASSWORD = "a-s3cret-word"


def test_sources_log_in_and_plans_show_no_password(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    with ReplicaSet(auth=True, first_user=("app", PASSWORD)) as replica_set:
        client = replica_set.client(username="app", password=PASSWORD)
        client.shop.orders.insert_one({"_id": 1})
        named = replica_set.uri.replace("://", "://app@")
        whole = replica_set.uri.replace("://", f"://app:{PASSWORD}@")
        assert change_stream(spark, whole, "shop.orders").count() == 1
        by_file = {"uri": named, "passwordFile": str(path)}
        assert spark.read.format("tailrace").options(ns="shop.orders", **by_file).load().count() == 1
        entries = spark.read.format("tailrace.oplog").options(**by_file).load()
        assert entries.where("ns = 'shop.orders' and op = 'i'").count() == 1
        for frame in (
            change_stream(spark, whole, "shop.orders", streaming=True),
            spark.readStream.format("tailrace.oplog").option("uri", whole).load(),
            spark.read.format("tailrace").options(ns="shop.orders", uri=whole).load(),
        ):
            frame.explain(True)
        shown = capsys.readouterr().out
    assert "StreamingRelation" in shown
    assert PASSWORD not in shown
