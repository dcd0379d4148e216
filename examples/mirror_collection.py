"""A collection as a table: copied by Spark, then followed, and asked with SQL.

    python examples/mirror_collection.py SOURCE NS FOLDER

A first run copies the collection `NS` to a Delta table below FOLDER, and applies the changes that were made
meanwhile. A further run continues where the table is. The table has a row for each document and a column for
each field.
"""

import sys
from pathlib import Path

import polars
from pyspark.sql import SparkSession

from tailrace import mirror


def mirror_collection(spark: SparkSession, source: str, ns: str, folder: str | Path) -> str:
    """Bring the table of a collection up to now; return its place."""
    return mirror(spark, source, folder, namespaces=[ns]).tables[ns]


def count_by(table: str, column: str) -> dict[str, int]:
    """How many documents have each value of a field."""
    counts = polars.scan_delta(table).group_by(column).len().collect()
    return dict(sorted(counts.iter_rows()))


def main() -> None:
    spark = SparkSession.builder.appName("mirror").getOrCreate()
    table = mirror_collection(spark, *sys.argv[1:4])
    print(polars.scan_delta(table).head().collect())


if __name__ == "__main__":
    main()
