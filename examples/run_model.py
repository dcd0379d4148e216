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
from deltalake import DeltaTable

_SOURCE = re.compile(r"\{\{\s*source\(\s*'([^']+)'\s*,\s*'([^']+)'\s*\)\s*\}\}")


def run_model(folder: str | Path, model: str | Path) -> duckdb.DuckDBPyRelation:
    """The rows of a model."""

    def table(found: re.Match[str]) -> str:
        files = DeltaTable(f"{folder}/{found[1]}/{found[2]}").file_uris()
        return f"read_parquet({files!r}, union_by_name = true)"

    query = _SOURCE.sub(table, Path(model).read_text(encoding="utf-8"))
    rows = duckdb.connect().sql(query)
    assert rows is not None, "a model is a query"
    return rows


if __name__ == "__main__":
    print(run_model(*sys.argv[1:3]))
