"""Workers that have nothing of Tailrace get it with the job, as docs/object-stores.md shows."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from uuid import uuid4

import pyspark
import pytest

import tailrace
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.pipeline_runs import events_of, newest_time, streamed
from tests.spark.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.object_store import ObjectStoreServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
RUN = "from tailrace.cli.main import main\n\nraise SystemExit(main())\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the wheel cannot be built here: {done.stderr.strip().splitlines()[-1]}")
    (path,) = folder.glob("*.whl")
    return path


def environment_with(wheel: Path, folder: Path) -> Path:
    """A virtual environment with the wheel; the packages it needs stay where they are.

    All of them would be a gigabyte, which venv-pack would put into the archive.
    """
    made = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    (site,) = (made / "lib").glob("python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    with zipfile.ZipFile(wheel) as content:
        content.extractall(site)
    (folder / "run.py").write_text(RUN)
    return site


def packed(folder: Path) -> None:
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(folder / "env", ".")


def submit(
    cluster: StandaloneCluster, folder: Path, source: str, place: str, objects: ObjectStoreServer
) -> "subprocess.CompletedProcess[str]":
    command = [
        str(SUBMIT), "--master", cluster.master,
        "--archives", "environment.tar.gz#env", "--conf", "spark.pyspark.python=env/bin/python",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.memory=600m",
        "--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1",
        "run.py", "pipeline", "--source", source, "--history", place, "--trigger", "available-now",
    ]  # fmt: skip
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("PY")}
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **objects.environment(), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_an_archive_brings_tailrace_to_the_workers(
    java: None, wheel: Path, objects: ObjectStoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(hidden / "cache"))
    site = environment_with(wheel, hidden)
    packed(hidden)
    # The Python that workers would use of their own is none.
    with standalone_cluster(hidden, {"PYSPARK_PYTHON": "/nowhere/python"}) as cluster, ReplicaSet() as rs:
        client = rs.client()
        client.shop.orders.insert_many([{"_id": number} for number in range(100)])
        end = newest_time(client)
        place = objects.url(uuid4().hex)
        done = submit(cluster, hidden, rs.uri, place, objects)
        assert done.returncode == 0, done.stderr
        assert events_of(place) == streamed(client, end)
        # The archive is that of another version.
        text = (site / "tailrace" / "__init__.py").read_text()
        (site / "tailrace" / "__init__.py").write_text(text.replace(f'"{tailrace.__version__}"', '"0.0.9"'))
        packed(hidden)
        (site / "tailrace" / "__init__.py").write_text(text)
        client.shop.orders.insert_one({"_id": 1000})
        done = submit(cluster, hidden, rs.uri, place, objects)
        assert done.returncode == 1
        assert f"the driver runs Tailrace {tailrace.__version__}, and this executor 0.0.9" in done.stderr
