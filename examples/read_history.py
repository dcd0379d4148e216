"""What happened, by collection and operation: a history read with plain Spark.

    python examples/read_history.py HISTORY

The history is a Delta table. Its log says which Parquet files belong to it; `deltalake` reads that
log, and Spark reads the files. A session with Delta's own jar says
``spark.read.format("delta").load(HISTORY)`` instead.
"""

import sys

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession


def read_history(spark: SparkSession, history: str) -> DataFrame:
    """The table as it is now."""
    return spark.read.parquet(*DeltaTable(history).file_uris())


def activity(events: DataFrame) -> DataFrame:
    """How often which operation came to which collection, and when it last did."""
    return (
        events.where("operation IS NOT NULL")
        .groupBy("db", "coll", "operation")
        .agg({"*": "count", "wall_time": "max"})
        .withColumnsRenamed({"count(1)": "events", "max(wall_time)": "last"})
        .orderBy("db", "coll", "operation")
    )


def main() -> None:
    """Print the activity of the history named on the command line."""
    spark = SparkSession.builder.appName("activity").getOrCreate()
    activity(read_history(spark, sys.argv[1])).show(100, truncate=False)


if __name__ == "__main__":
    main()
