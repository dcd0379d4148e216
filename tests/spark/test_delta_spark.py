"""Delta Lake's own reader on Spark reads a history: a pinned pair of releases, downloaded for the test."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.lake.compaction import compact
from tailrace.lake.log_writer import make_checkpoint
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.java import use_java
from tests.spark.test_history_sink import built_here, sink
from tests.support.bulk import generate_bulk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
SPARK, DELTA = "4.2.0", "io.delta:delta-spark_4.2_2.13:4.4.0"
READER = """
import hashlib, json, sys
from pyspark.sql import SparkSession

history, delta, ivy = sys.argv[1:]
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
table = spark.read.format("delta").load(history)
digest = hashlib.sha256()
for row in table.orderBy("token").select("token", "event").collect():
    digest.update(row.token.encode() + bytes(row.event or b""))
print(json.dumps({
    "spark": spark.version,
    "rows": table.count(),
    "inserts": table.where("operation = 'insert' AND db = 'shop'").count(),
    "digest": digest.hexdigest(),
    "commits": spark.sql(f"DESCRIBE HISTORY delta.`{history}`").count(),
}))
"""


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
    use_java()
    environment = {
        **os.environ, "PYTHONPATH": str(older_spark / "spark"), "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    environment.pop("SPARK_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", READER, str(history), DELTA, str(older_spark / "ivy")],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    if "unresolved dependency" in done.stdout + done.stderr:
        pytest.skip("the jars of Delta Lake cannot be downloaded here")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    digest = hashlib.sha256()
    rows = [row for batch in table.read(0) for row in batch.to_pylist()]
    for row in rows:
        digest.update(row["token"].encode() + bytes(row["event"] or b""))
    assert found["spark"] == SPARK
    assert found["rows"] == len(rows) > 1500
    assert found["inserts"] == sum(row["operation"] == "insert" and row["db"] == "shop" for row in rows) > 100
    assert found["digest"] == digest.hexdigest()
    assert found["commits"] >= 1
