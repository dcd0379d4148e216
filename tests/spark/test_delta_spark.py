"""Delta Lake's own reader on Spark reads histories and mirrors: a pinned pair of releases, downloaded."""

import hashlib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from pymongo import MongoClient

from tailrace.lake.compaction import compact
from tailrace.lake.log_writer import make_checkpoint
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.java import use_java
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.progress import MirrorProgress
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.test_history_sink import built_here, sink
from tests.support.bulk import generate_bulk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
SPARK, DELTA = "4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0"
OPENING = """
import hashlib, json, sys
from pyspark.sql import SparkSession

place, delta, ivy = sys.argv[1:]
settings = {
    "spark.jars.packages": delta,
    "spark.jars.excludes": "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime",
    "spark.jars.ivy": ivy,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.driver.memory": "800m",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
table = spark.read.format("delta").load(place)
"""
READER = (
    OPENING
    + """
digest = hashlib.sha256()
for row in table.orderBy("token").select("token", "event").collect():
    digest.update(row.token.encode() + bytes(row.event or b""))
print(json.dumps({
    "spark": spark.version,
    "rows": table.count(),
    "inserts": table.where("operation = 'insert' AND db = 'shop'").count(),
    "digest": digest.hexdigest(),
    "commits": spark.sql(f"DESCRIBE HISTORY delta.`{place}`").count(),
}))
"""
)
MIRROR_READER = (
    OPENING
    + """
documents = [bytes(row._bson).hex() for row in table.orderBy("_key").select("_bson").collect()]
one = table.where("_id = 7").select("buyer.city", "total__string").first()
total = table.selectExpr("sum(total)").first()[0]
print(json.dumps({"documents": documents, "one": list(one), "sum": total}))
"""
)


@pytest.fixture(scope="module")
def older_spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("delta")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder / "spark"),
    ]
    done = subprocess.run([*command, f"pyspark=={SPARK}"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"PySpark {SPARK} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return folder


def read_by(older_spark: Path, program: str, place: Path) -> dict[str, Any]:
    """What a program finds that reads a table with Delta Lake's own reader."""
    use_java()
    environment = {
        **os.environ, "PYTHONPATH": str(older_spark / "spark"), "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    environment.pop("SPARK_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", program, str(place), DELTA, str(older_spark / "ivy")],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    if "unresolved dependency" in done.stdout + done.stderr:
        pytest.skip("the jars of Delta Lake cannot be downloaded here")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_delta_spark_reads_a_history_from_its_log_and_from_its_checkpoint(
    older_spark: Path, tmp_path: Path
) -> None:
    oplog, history = tmp_path / "oplog.bson", tmp_path / "history"
    oplog.write_bytes(b"".join(generate_bulk(4, 1500)))
    writer = sink(history)
    batches = built_here(str(oplog), history)
    for number, rows in enumerate(batches[:-1]):
        writer.commit([writer.write(iter(rows))], number)
    table = HistoryTable.open(history)
    compact(table)
    make_checkpoint(table)
    writer.commit([writer.write(iter(batches[-1]))], len(batches))
    table.refresh()
    found = read_by(older_spark, READER, history)
    digest = hashlib.sha256()
    rows = [row for batch in table.read(0) for row in batch.to_pylist()]
    for row in rows:
        digest.update(row["token"].encode() + bytes(row["event"] or b""))
    assert found["spark"] == SPARK
    assert found["rows"] == len(rows) > 1500
    assert found["inserts"] == sum(row["operation"] == "insert" and row["db"] == "shop" for row in rows) > 100
    assert found["digest"] == digest.hexdigest()
    assert found["commits"] >= 1


def test_delta_spark_reads_a_mirrored_table_after_its_columns_and_rows_changed(
    older_spark: Path, tmp_path: Path
) -> None:
    settings = MirrorSettings(
        str(tmp_path), mirrored_namespaces(["shop"]), range_documents=40, file_bytes=2000
    )
    with ReplicaSet() as server, MongoClient[Any](server.uri) as client:
        orders = client.shop.orders
        orders.insert_many([{"_id": n, "total": n, "buyer": {"name": f"b{n}"}} for n in range(100)])
        for _ in range(2):
            with DeploymentSource(server.uri) as source:
                MirrorJob(partial(_engine, source, settings), None).run()
            orders.update_one({"_id": 7}, {"$set": {"buyer.city": "Ulm", "total": "seven"}})
            orders.delete_one({"_id": 8})
        found = read_by(older_spark, MIRROR_READER, tmp_path / "shop" / "orders")
        assert found["documents"] == [encode(each).hex() for each in orders.find().sort("_id")]
    assert (found["one"], found["sum"]) == (["Ulm", "seven"], sum(range(100)) - 7 - 8)


def test_delta_spark_reads_deletion_vectors_from_the_log_and_from_a_checkpoint(
    older_spark: Path, tmp_path: Path
) -> None:
    settings = MirrorSettings(str(tmp_path), mirrored_namespaces(["shop"]), deletion_vectors=True)
    with (
        ReplicaSet() as server,
        MongoClient[Any](server.uri) as client,
        DeploymentSource(server.uri) as source,
    ):
        orders = client.shop.orders
        orders.insert_many([{"_id": n, "total": n, "buyer": {"name": f"b{n}"}} for n in range(70_000)])
        MirrorJob(partial(_engine, source, settings), None).run()
        # The first has a vector in a file, with two containers; the later ones grow to be in the log.
        for change in (
            lambda: orders.delete_many({"_id": {"$mod": [11, 8]}}),
            lambda: orders.delete_many({"_id": {"$gte": 66_000, "$lt": 68_000}}),
            lambda: orders.update_one({"_id": 7}, {"$set": {"buyer.city": "Ulm", "total": "seven"}}),
        ):
            change()
            engine = MirrorJob(partial(_engine, source, settings), None).run()
        assert engine is not None
        table = engine.tables["shop.orders"]
        assert sum(file.dead for file in table.live) > 8000
        expected = [encode(each).hex() for each in orders.find().sort("_id")]
        assert read_by(older_spark, MIRROR_READER, tmp_path / "shop" / "orders")["documents"] == expected
        for number in range(105):
            orders.update_one({"_id": 11 * number}, {"$set": {"total": 0}})
            while not engine.apply_some():
                pass
        assert table.log.checkpoint_version() > 90
        expected = [encode(each).hex() for each in orders.find().sort("_id")]
        found = read_by(older_spark, MIRROR_READER, tmp_path / "shop" / "orders")
    assert found["documents"] == expected
    assert found["one"] == ["Ulm", "seven"]


def _engine(source: DeploymentSource, settings: MirrorSettings, progress: MirrorProgress) -> MirrorEngine:
    return MirrorEngine(source, settings, progress=progress)
