"""The declarative pipeline of `examples/`, run with the command of its page."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyspark
import pytest
from pymongo.collection import Collection

from tailrace.pipeline.java import use_java
from tailrace.testing.replica_set import ReplicaSet

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^spark-pipelines (run .*)$", re.MULTILINE)
SPECIFICATION = "examples/declarative/spark-pipeline.yml"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def copied_example(folder: Path, uri: str) -> None:
    """The example, for this source and with its storage in this folder."""
    shutil.copytree(ROOT / "examples" / "declarative", folder / "examples" / "declarative")
    path = folder / SPECIFICATION
    text = path.read_text()
    for shown, own in (
        ("mongodb://localhost:27017/?replicaSet=rs0", uri),
        ("file:///tmp/shop", (folder / "storage").as_uri()),
    ):
        assert shown in text
        text = text.replace(shown, own)
    path.write_text(text)


def run_pipeline(folder: Path) -> None:
    (shown,) = COMMAND.findall((ROOT / "examples" / "README.md").read_text())
    assert SPECIFICATION in shown
    use_java()
    done = subprocess.run(
        [Path(pyspark.__file__).parent / "bin" / "spark-pipelines", *shown.split()],
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED." in done.stdout + done.stderr


def rows_of(folder: Path, table: str, columns: str) -> list[tuple[Any, ...]]:
    files = [str(path) for path in (folder / "spark-warehouse" / table).glob("*.parquet")]
    return sorted(duckdb.connect().execute(f"SELECT {columns} FROM read_parquet(?)", [files]).fetchall())


def by_state(orders: "Collection[dict[str, Any]]") -> list[tuple[Any, ...]]:
    """What the collection has."""
    totals = {"_id": "$state", "orders": {"$sum": 1}, "total": {"$sum": "$total"}}
    return sorted((row["_id"], row["orders"], row["total"]) for row in orders.aggregate([{"$group": totals}]))


@pytest.mark.usefixtures("java")
def test_a_second_run_appends_what_changed_and_counts_again(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs the package grpcio")
    pytest.importorskip("yaml", reason="declarative pipelines need the package PyYAML")
    with ReplicaSet() as source:
        copied_example(tmp_path, source.uri)
        orders = source.client().shop.orders
        orders.insert_many(
            [{"_id": n, "state": "new" if n % 2 else "paid", "total": 1.5 * n} for n in range(10)]
        )
        run_pipeline(tmp_path)
        counted = ("orders_by_state", "state, orders, total")
        assert rows_of(tmp_path, *counted) == by_state(orders) == [("new", 5, 37.5), ("paid", 5, 30.0)]
        orders.update_one({"_id": 1}, {"$set": {"state": "paid"}})
        orders.delete_one({"_id": 2})
        orders.insert_one({"_id": "late", "state": "new", "total": 0.5})
        run_pipeline(tmp_path)
        assert rows_of(tmp_path, *counted) == by_state(orders) == [("new", 5, 36.5), ("paid", 5, 28.5)]
    changes = rows_of(tmp_path, "order_changes", "operationType, documentKey._id")
    assert changes == [
        ("delete", "2"),
        ("insert", "late"),
        *(("read", str(n)) for n in range(10)),
        ("update", "1"),
    ]
