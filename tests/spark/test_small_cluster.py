"""A Spark cluster of two workers that share no folder with the driver, in three JVMs.

Master and workers are in the driver's JVM, and each worker starts an executor. The same on six JVMs, with
kills and a second driver, is in `tests/laws/test_spark_object_store.py`; that takes minutes.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pyspark
import pytest

from tailrace.lake.table import HistoryTable
from tailrace.pipeline.java import use_java
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.pipeline_runs import SECONDS
from tests.spark.standalone_cluster import HIDDEN, require_namespaces
from tests.support.object_store import SECRET, ObjectStoreServer

_MASTER = "local-cluster[2,1,512]"
_ORDERS = 200
"""Each has an entry of its own, so that a batch has several tasks."""
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def spark_home(folder: Path) -> Path:
    """An installation of Spark whose workers may write to it."""
    folder.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (folder / part.name).symlink_to(part)
    return folder


def java_home(folder: Path, hidden: Path) -> Path:
    """A Java that does not see a folder."""
    use_java()
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    own = os.environ.get("JAVA_HOME")
    real = str(Path(own, "bin", "java")) if own else "java"
    command = shlex.join(["unshare", "-m", "sh", "-c", HIDDEN, str(hidden), real])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.timeout(3 * SECONDS)
def test_two_workers_without_a_shared_folder_build_the_history_of_a_local_one(
    java: None, objects: ObjectStoreServer, tmp_path: Path
) -> None:
    require_namespaces()
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    home = spark_home(tmp_path / "spark")
    place = objects.url(uuid4().hex)
    # Tasks wait for both workers, so both have some.
    settings = [
        "--conf", f"spark.executorEnv.JAVA_HOME={java_home(tmp_path / 'java', hidden)}",
        "--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0",
        "--conf", f"spark.scheduler.maxRegisteredResourcesWaitingTime={SECONDS}s",
    ]  # fmt: skip
    environment = os.environ | objects.environment() | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "XDG_CACHE_HOME": str(hidden / "cache"),
        "JAVA_TOOL_OPTIONS": _LIGHT,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*settings, "pyspark-shell"]),
    }  # fmt: skip
    with ReplicaSet() as rs:
        orders = rs.client().shop.orders
        for number in range(_ORDERS):
            orders.insert_one({"_id": number, "text": "x" * 50})
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster_driver", _MASTER, rs.uri, place],
            env=environment,
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        executors = list(home.glob("work/app-*/*"))
        assert {folder.name for folder in executors} == {"0", "1"}
        logged = [(folder / "stderr").read_text() for folder in executors]
        assert all("Finished task" in text for text in logged), logged
        assert SECRET not in done.stdout + done.stderr + "".join(logged)
        table = HistoryTable.open(place)
        HistoryBuilder(rs.server.store, tmp_path / "local").build(table.through)
        local = HistoryTable.open(tmp_path / "local")
        rows = [[*each.read(0, table.through)] for each in (table, local)]
        found, expected = ([row for batch in batches for row in batch.to_pylist()] for batches in rows)
        assert found == expected
        assert f"done {len(found)}" in done.stdout
        assert len(found) >= _ORDERS
