"""A collection as it was, as a DataFrame."""

from pathlib import Path

import bson
from pyspark.sql import SparkSession

from tailrace import ReplicaSet, as_of
from tailrace.spark.past import as_of_frame


def test_tasks_rebuild_the_documents(spark: SparkSession, tmp_path: Path) -> None:
    with ReplicaSet(history=tmp_path, builds_history=True) as replica_set:
        orders = replica_set.client().shop.orders
        orders.insert_many([{"_id": number} for number in range(20)])
        orders.update_many({"_id": {"$gt": 15}}, {"$set": {"paid": True}})
        orders.delete_one({"_id": 0})
        moment = replica_set.cluster_time
        orders.drop()
        replica_set.catch_up()
    frame = as_of_frame(spark, as_of(tmp_path, "shop.orders", moment), parts=3)
    assert frame.rdd.getNumPartitions() == 3
    rows = {row["_id"]: bson.decode(row["document"]) for row in frame.collect()}
    assert rows == {
        f'{{"_id": {{"$numberInt": "{number}"}}}}': {"_id": number} | ({"paid": True} if number > 15 else {})
        for number in range(1, 20)
    }
    assert as_of_frame(spark, as_of(tmp_path, "shop.orders")).count() == 0
