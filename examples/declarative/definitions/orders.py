"""The orders of a shop: every change as a row of a streaming table, and how many there are in each state."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SCHEMA = """
    token STRING, operationType STRING, wallTime TIMESTAMP, documentKey STRUCT<_id: STRING>,
    fullDocument STRUCT<state: STRING, total: DOUBLE>
"""


@dp.table
def order_changes() -> DataFrame:
    """Each order once, as it was found, then every change of it; a run appends what is new."""
    spark = SparkSession.active()
    return (
        spark.readStream.format("tailrace")
        .schema(SCHEMA)
        .option("uri", spark.conf.get("spark.shop.uri"))
        .option("ns", "shop.orders")
        .option("startingOffsets", "snapshot")
        .option("fullDocument", "updateLookup")
        .load()
    )


@dp.materialized_view
def orders_by_state() -> DataFrame:
    """Tokens sort like the stream, so the row with the greatest one has the order as it is now."""
    changes = SparkSession.active().read.table("order_changes")
    newest = changes.groupBy("documentKey").agg(f.max_by("fullDocument", "token").alias("order"))
    return (
        newest.where("order IS NOT NULL")
        .groupBy("order.state")
        .agg(f.count("*").alias("orders"), f.sum("order.total").alias("total"))
    )
