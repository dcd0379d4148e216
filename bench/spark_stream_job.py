"""Drain a stream of changes with one Spark format, some times in one session: takes and prints JSON.

It runs with Tailrace's Spark and with that of the MongoDB Spark Connector, so it imports nothing but PySpark.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def drain(spark: SparkSession, request: Mapping[str, Any], sink: str, folder: Path) -> dict[str, float]:
    """Write all there is once; return the seconds of the whole query and of writing its batches."""
    written = 0.0
    began = time.perf_counter()
    reader = spark.readStream.format(request["format"]).options(**request["options"])
    changes = reader.schema(request["schema"]).load()

    def write(batch: DataFrame, _: int) -> None:
        nonlocal written
        start = time.perf_counter()
        writer = batch.write.format(sink).mode("append")
        writer.save() if sink == "noop" else writer.save(str(folder / "rows"))
        written += time.perf_counter() - start

    stream = changes.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    query = stream.trigger(availableNow=True).start()
    is_over = query.awaitTermination(request["seconds"])
    seconds = time.perf_counter() - began
    query.stop()
    rows = sum(progress["numInputRows"] for progress in query.recentProgress)
    return {"rows": rows, "is_over": is_over, "seconds": seconds, "written": written}


def main() -> None:
    request = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(request["master"])
    for name, value in request["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for number, sink in enumerate(request["sinks"]):
        folder = Path(request["folder"], str(number))
        print(json.dumps({"sink": sink} | drain(spark, request, sink, folder)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
