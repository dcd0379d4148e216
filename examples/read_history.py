"""Count the events of a history by collection and operation, with plain Spark.

    python examples/read_history.py HISTORY

The history is a Delta table. Its log lists the Parquet files that belong to it: `deltalake` reads the log,
and Spark reads the files. A session with Delta's own jar uses
``spark.read.format("delta").load(HISTORY)`` instead.
"""

import sys

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession


def read_history(spark: SparkSession, history: str) -> DataFrame:
    """The rows of the table's current version."""
    return spark.read.parquet(*DeltaTable(history).file_uris())


def activity(events: DataFrame) -> DataFrame:
    """The number of events of each collection and operation, and the time of the last one."""
    return (
        events.where("operation IS NOT NULL")
        .groupBy("db", "coll", "operation")
        .agg({"*": "count", "wall_time": "max"})
        .withColumnsRenamed({"count(1)": "events", "max(wall_time)": "last"})
        .orderBy("db", "coll", "operation")
    )


def main() -> None:
    spark = SparkSession.builder.appName("activity").getOrCreate()
    activity(read_history(spark, sys.argv[1])).show(100, truncate=False)


if __name__ == "__main__":
    main()
