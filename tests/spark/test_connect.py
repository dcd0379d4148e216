"""Everything through Spark Connect, whose sessions have no `sparkContext`; the client starts no Java."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tailrace.lake.table import HistoryTable
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.connect_server import connect_server
from tests.spark.pipeline_runs import events_of, newest_time, streamed
from tests.spark.test_history_sink import built_here
from tests.spark.test_object_store import data_files
from tests.support.bulk import generate_bulk
from tests.support.object_store import SECRET, ObjectStoreServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CLIENT = """
import json, sys
from tailrace import change_stream
from tailrace.spark.session import build_session

address, oplog, history, own, checkpoint = sys.argv[1:]
spark = build_session(address)
assert "connect" in type(spark).__module__
query = (
    spark.readStream.format("tailrace.pipeline")
    .options(path=oplog, history=own, maxEntriesPerTrigger=600).load()
    .writeStream.format("tailrace.pipeline").option("history", own)
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
)
query.awaitTermination()
shop = change_stream(spark, history, "shop", schema="operationType STRING")
raw = spark.read.format("tailrace.oplog").load(oplog)
print(json.dumps([shop.where("operationType = 'insert'").count(), raw.count()]))
"""
SPECIFICATION = """
name: history
storage: {storage}
libraries:
  - glob:
      include: definitions/**
"""
DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from tailrace import register

spark = SparkSession.active()
register(spark)
history = {history!r}
dp.create_sink("history", "tailrace.pipeline", {{"history": history}})


@dp.append_flow(target="history")
def events():
    options = {{"path": {oplog!r}, "history": history, "maxEntriesPerTrigger": "600"}}
    return spark.readStream.format("tailrace.pipeline").options(**options).load()
"""


@pytest.fixture(scope="module")
def server(java: None, objects: ObjectStoreServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """It has the credentials of the object store in its environment, as the client has."""
    folder = tmp_path_factory.mktemp("connect")
    checkpoints = f"spark.sql.streaming.checkpointLocation={folder / 'checkpoints'}"
    with connect_server(folder, "--master", "local[2]", "--conf", checkpoints) as address:
        yield address
        assert SECRET not in (folder / "connect.log").read_text(errors="replace")


def without_java(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**environment, "PATH": "/nowhere", **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def pipeline(server: str, *arguments: str) -> str:
    done = without_java("-m", "tailrace", "pipeline", "--master", server, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_command_builds_a_history_on_a_server_of_spark_connect(
    server: str, objects: ObjectStoreServer
) -> None:
    place = objects.url(uuid4().hex)
    with ReplicaSet() as rs:
        client = rs.client()
        for first in (0, 1000):
            client.shop.orders.insert_many([{"_id": first + number} for number in range(500)])
            end = newest_time(client)
            log = pipeline(
                server, "--source", rs.uri, "--history", place, "--trigger", "available-now",
                "--max-entries", "300",
            )  # fmt: skip
            assert "Pipeline ended" in log
            assert events_of(place) == streamed(client, end)
    assert f'"rows":{HistoryTable.open(place).rows // 2}' in log.replace(" ", "")


def test_sources_and_the_sink_work_without_a_spark_context(server: str, tmp_path: Path) -> None:
    oplog = tmp_path / "oplog.bson"
    oplog.write_bytes(b"".join(generate_bulk(3, 1500)))
    history, own = tmp_path / "history", tmp_path / "own"
    pipeline(server, "--source", str(oplog), "--history", str(history))
    done = without_java(
        "-c", CLIENT, server, str(oplog), str(history), str(own), str(tmp_path / "checkpoint")
    )
    assert done.returncode == 0, done.stderr
    inserts, entries = json.loads(done.stdout.splitlines()[-1])
    table = HistoryTable.open(history)
    kept = [row for batch in table.read(0) for row in batch.to_pylist()]
    assert inserts == sum(row["operation"] == "insert" and row["db"] == "shop" for row in kept) > 100
    assert entries == 1500
    built_here(str(oplog), tmp_path / "here")
    assert data_files(own) == data_files(tmp_path / "here")
    assert HistoryTable.open(own).through == table.through
    replay = ("-m", "tailrace", "replay", str(oplog), "--engine")
    on_server = without_java(*replay, "spark", "--master", server)
    assert on_server.returncode == 0, on_server.stderr
    assert on_server.stdout == without_java(*replay, "local").stdout


def test_the_sink_is_one_of_a_declarative_pipeline(server: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="declarative pipelines need the package PyYAML")
    oplog, history = tmp_path / "oplog.bson", tmp_path / "history"
    oplog.write_bytes(b"".join(generate_bulk(5, 800)))
    (tmp_path / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=(tmp_path / "state").as_uri()))
    (tmp_path / "definitions").mkdir()
    definitions = DEFINITIONS.format(history=str(history), oplog=str(oplog))
    (tmp_path / "definitions" / "history.py").write_text(definitions)
    for _ in range(2):  # the second run finds nothing new
        done = without_java(
            "-m", "pyspark.pipelines.cli", "run", "--spec", str(tmp_path / "spark-pipeline.yml"),
            SPARK_REMOTE=server,
        )  # fmt: skip
        # Its exit code is not 0: after the run, Spark's client gets an answer about the Python processes of
        # any source, which it does not know.
        assert "Run is COMPLETED." in done.stdout + done.stderr
    built_here(str(oplog), tmp_path / "here")
    assert HistoryTable.open(history).rows > 800
    assert data_files(history) == data_files(tmp_path / "here")
