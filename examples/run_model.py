"""Run a SQL model on the tables of a mirror, with DuckDB.

    python examples/run_model.py FOLDER MODEL

FOLDER is what `tailrace mirror --to` names. A model is a query in which `{{ source('shop', 'orders') }}` is
the table of the collection `shop.orders`. In a project of dbt the same file is a model: declare the tables as
sources, with the package `dbt-duckdb` or an adapter of a platform that reads Delta.
"""

import re
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

_SOURCE = re.compile(r"\{\{\s*source\(\s*'([^']+)'\s*,\s*'([^']+)'\s*\)\s*\}\}")


def run_model(folder: str | Path, model: str | Path) -> duckdb.DuckDBPyRelation:
    """The rows of a model."""

    connection = duckdb.connect()

    def table(found: re.Match[str]) -> str:
        delta = DeltaTable(f"{folder}/{found[1]}/{found[2]}")
        if "deletionVectors" not in (delta.protocol().reader_features or ()):
            return f"read_parquet({delta.file_uris()!r}, union_by_name = true)"
        # The files have rows that are deleted.
        name = f"{found[1]}.{found[2]}"
        connection.register(name, pa.table(delta.scan()))
        return f'"{name}"'

    query = _SOURCE.sub(table, Path(model).read_text(encoding="utf-8"))
    rows = connection.sql(query)
    assert rows is not None, "a model is a query"
    return rows


if __name__ == "__main__":
    print(run_model(*sys.argv[1:3]))
