"""docs/from-spark-connector.md and docs/from-debezium.md: the jobs after the move run."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from bson.json_util import loads
from pyspark.sql import SparkSession

from tailrace.testing.replica_set import ReplicaSet

DOCS = Path(__file__).parents[2] / "docs"
DEPLOYMENT = "mongodb://db.example/?replicaSet=rs0"
SERVER = "mongodb://127.0.0.1:27017/?replicaSet=rs0"
MOMENT = "2026-11-01T00:00:00Z"


def jobs(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_a_job_of_the_connector_changes_its_format_and_its_checkpoint() -> None:
    before, after = jobs("from-spark-connector.md")
    lines = zip(before.splitlines(), after.splitlines(), strict=True)
    changed = [(old, new) for old, new in lines if old != new]
    new_names = {'"mongodb"': '"tailrace"', "orders-checkpoint": "orders-tailrace"}
    for (old, new), (name, new_name) in zip(changed, new_names.items(), strict=True):
        assert old.replace(name, new_name) == new


def test_the_job_after_the_connector_writes_the_events(spark: SparkSession, tmp_path: Path) -> None:
    with ReplicaSet() as server, server.client() as client:
        seconds = server.cluster_time.time
        client.shop.orders.insert_one({"_id": 1, "total": 5})
        client.shop.orders.update_one({"_id": 1}, {"$set": {"total": 6}})
        client.shop.other.insert_one({"_id": 2})
        job = jobs("from-spark-connector.md")[1].replace(DEPLOYMENT, server.uri).replace(MOMENT, str(seconds))
        for name in ("orders", "orders-tailrace"):
            job = job.replace(f', "{name}")', f', "{tmp_path / name}")')
        job = job.replace(f'collection", "{tmp_path / "orders"}"', 'collection", "orders"')
        exec(job, {})
    rows = pq.read_table(tmp_path / "orders").to_pylist()
    shown = [(row["operationType"], loads(row["fullDocument"])) for row in rows]
    assert shown == [("insert", {"_id": 1, "total": 5}), ("update", {"_id": 1, "total": 6})]


def test_the_consumer_after_debezium_sends_documents_and_then_changes() -> None:
    (job,) = jobs("from-debezium.md")
    sent: list[dict[str, Any]] = []

    def send(document: dict[str, Any]) -> None:
        sent.append(document)
        if len(sent) == 1:
            orders.insert_one({"_id": 2})
        else:
            raise StopIteration

    with ReplicaSet() as server, server.client() as client:
        orders = client.shop.orders
        orders.insert_one({"_id": 1})
        with pytest.raises(StopIteration):
            exec(job.replace(SERVER, server.uri), {"send": send})
    assert sent == [{"_id": 1}, {"_id": 2}]
