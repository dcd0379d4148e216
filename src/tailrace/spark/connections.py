"""What differs between a session in this process and one of Spark Connect, which has no `sparkContext`."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

try:
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
except ImportError:  # the package pyspark-client is enough for Spark Connect

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Never raised."""

    class Py4JJavaError(Exception):  # type: ignore[no-redef]
        """Never raised."""


__all__ = ["Py4JError", "Py4JJavaError", "cores_of", "is_connect"]

_ROWS: Final = 10_000
"""More than a cluster has cores, usually"""


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect; its class is no subclass of the other."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def cores_of(spark: SparkSession) -> int:
    """The cores of all executors together, as Spark's `defaultParallelism` counts them."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    # Without a number of partitions, a range has that many.
    numbers = spark.range(_ROWS).select(F.spark_partition_id().alias("number"))
    (row,) = numbers.agg(F.max("number").alias("last")).collect()
    return int(row["last"]) + 1
