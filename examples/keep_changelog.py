"""Append every change of a collection to Parquet files, with the document before and after it.

    python examples/keep_changelog.py SOURCE NS TARGET

A streaming query that reads what is there and ends; run again, by a scheduler for example, it continues where
it stopped. Without the trigger it does not end, and follows the collection. The rows have Spark's changelog
columns: an update is a row `update_preimage` and a row `update_postimage`, and all rows of one commit have
the same `_commit_version`.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tailrace import change_stream


def keep_changelog(spark: SparkSession, source: str, ns: str, target: str | Path) -> StreamingQuery:
    """Start the query; it ends when all changes so far are written."""
    changes = change_stream(
        spark,
        source,
        ns,
        {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"},
        streaming=True,
        startingOffsets="earliest",
        documentsAs="json",
        changelog=True,
    )
    return (
        changes.where("_change_type IS NOT NULL")
        .select(
            "_commit_version", "_commit_timestamp", "_change_type", "token", "documentKey", "fullDocument"
        )
        .writeStream.format("parquet")
        .option("path", str(target))
        .option("checkpointLocation", f"{target}/_checkpoint")
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    spark = SparkSession.builder.appName("changelog").getOrCreate()
    keep_changelog(spark, *sys.argv[1:4]).awaitTermination()


if __name__ == "__main__":
    main()
