"""A Delta table that follows a collection: every micro-batch of its change stream is one MERGE.

    python examples/mirror_collection.py SOURCE NS MIRROR

The mirror has a row for each document: its key, its BSON, and the token of its last change. A batch that is
repeated after a failure changes nothing, because a row is only replaced by one with a later token. When the
collection is dropped or renamed, the mirror is emptied and the stream ends.
"""

import sys
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from tailrace import change_stream

MIRROR = pa.schema([("key", pa.string()), ("document", pa.binary()), ("token", pa.string())])

ENDS = "'drop', 'rename', 'dropDatabase', 'invalidate'"


def mirror_collection(spark: SparkSession, source: str, ns: str, mirror: str | Path) -> StreamingQuery:
    """Start the query; it ends when all changes so far are merged."""
    DeltaTable.create(str(mirror), MIRROR, mode="ignore")
    changes = change_stream(
        spark,
        source,
        ns,
        {"fullDocument": "updateLookup"},
        streaming=True,
        startingOffsets="earliest",
        documentsAs="bson",
    )
    return (
        changes.writeStream.foreachBatch(lambda batch, _: merge(batch, str(mirror)))
        .option("checkpointLocation", f"{mirror}/_checkpoint")
        .trigger(availableNow=True)
        .start()
    )


def merge(batch: DataFrame, mirror: str) -> None:
    """Apply a batch to the mirror."""
    batch.persist()  # used twice, read once
    try:
        rows = newest_changes(batch).toArrow()
        is_over = not batch.where(f"operationType IN ({ENDS})").isEmpty()
    finally:
        batch.unpersist()
    table = DeltaTable(mirror)
    if rows.num_rows:
        (
            table.merge(rows, "mirror.key = change.key", source_alias="change", target_alias="mirror")
            .when_matched_delete("change.gone AND change.token > mirror.token")
            .when_matched_update(
                {"document": "change.document", "token": "change.token"}, "change.token > mirror.token"
            )
            .when_not_matched_insert(
                {"key": "change.key", "document": "change.document", "token": "change.token"},
                "NOT change.gone",
            )
            .execute()
        )
    if is_over:
        table.delete()


def newest_changes(batch: DataFrame) -> DataFrame:
    """The last change of each document in a batch."""
    # An update that finds no document was followed by a delete, in this batch or in a later one.
    is_outdated = "operationType = 'update' AND fullDocument IS NULL"
    return (
        batch.where(f"documentKey IS NOT NULL AND NOT ({is_outdated})")
        .groupBy("documentKey")
        .agg(expr("max_by(struct(fullDocument, operationType), token) AS last"), expr("max(token) AS token"))
        .selectExpr(
            "hex(documentKey) AS key",
            "last.fullDocument AS document",
            "token",
            "last.operationType = 'delete' AS gone",
        )
    )


def main() -> None:
    spark = SparkSession.builder.appName("mirror").getOrCreate()
    mirror_collection(spark, *sys.argv[1:4]).awaitTermination()


if __name__ == "__main__":
    main()
